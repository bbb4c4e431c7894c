//! What a deployment tells about itself, and what must be in order before it is measured: readiness,
//! conditions, a first request, a restart, empty caches, counters.

pub mod caches;
mod certificate;
pub mod conditions;
pub mod control;
pub mod counters;
pub mod group;
pub mod preflight;
pub mod restart;
