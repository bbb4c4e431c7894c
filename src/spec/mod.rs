//! What people write: YAML text to validated policies, workloads and targets. Reading collects every
//! problem of a file with its place; after it nothing is checked again.

pub mod policy;
pub mod target;
pub mod workload;
