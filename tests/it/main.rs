//! Behaviour tests, in one binary: the crate links once, and helpers have one home.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::string_slice,
    clippy::indexing_slicing,
    reason = "a test that cannot go on must stop, and says where"
)]

mod ab;
mod advice;
mod architecture;
mod baseline;
mod caches;
mod capacity;
mod cli;
mod compare;
mod counters;
mod demo;
mod disk;
mod docs;
mod files;
mod folders;
mod gate;
mod golden;
mod hostile;
mod interrupt;
mod outputs;
mod phases;
mod prefixes;
mod reference;
mod replay;
mod restart;
mod resume;
mod secrets;
mod selfcheck;
mod slices;
mod stored;
mod support;
mod target;
mod tokenizer;
mod workload;
