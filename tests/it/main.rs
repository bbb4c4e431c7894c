//! Behaviour tests, in one binary: the crate links once, and helpers have one home.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::string_slice,
    reason = "a test that cannot go on must stop, and says where"
)]

mod architecture;
mod cli;
