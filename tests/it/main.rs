//! Behaviour tests, in one binary: the crate links once, and helpers have one home.

mod architecture;
