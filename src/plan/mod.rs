//! From a workload to the exact list of requests. Baseline, control and candidate replay the same
//! plan; its fingerprint proves it.

pub mod request;
