//! What every other module may use: units, names, words, digests, seeded random streams, findings.

pub mod diagnostic;
pub mod digest;
mod mask;
pub mod names;
#[cfg(test)]
pub(crate) mod recorded_tests;
pub mod rng;
pub mod said;
pub mod secret;
pub mod units;
pub mod words;
