//! servegate: a regression gate for LLM serving.
//!
//! It sends a short, fixed workload to a staged deployment, compares the measured distributions with
//! the baseline of the last approved release, and answers per policy: may this change ship?
//! `docs/ARCHITECTURE.md` holds the table of modules and the one-way rule between them.

pub mod artifact;
pub mod base;
pub mod cli;
pub mod compare;
pub mod fit;
pub mod loadgen;
pub mod plan;
pub mod probe;
pub mod report;
pub mod sim;
pub mod spec;
pub mod stats;
pub mod store;
pub mod trace;
pub mod verdict;
pub mod wire;
