//! From a workload to the exact list of requests. Baseline, control and candidate replay the same
//! plan; its fingerprint proves it.

mod arrivals;
#[cfg(test)]
mod arrivals_tests;
mod builder;
pub mod content;
mod fingerprint;
pub mod hit_rate;
mod lengths;
mod mixture;
mod normal;
mod prefixes;
pub mod prompt;
mod repeats;
pub mod replay;
pub mod request;
mod salt;
mod vocabulary;

pub use builder::{build, build_with, order};
pub use salt::RunName;
