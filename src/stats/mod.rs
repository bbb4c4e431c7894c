//! Numbers in, estimates and tests out: how noise is estimated and how two sets of runs are compared.
//!
//! The unit is the run: every `y` is the logarithm of one run's summary, with the sign chosen so that
//! larger is worse (`+ln` of a latency, `-ln` of a throughput). `+inf` is a run whose summary lies among
//! its failed requests. Nothing here knows what was measured.
//!
//! The way of a decision: [`quantile`] makes one number per run, [`history`] learns the noise from
//! earlier releases, [`moderated`] compares ([`paired`] pair by pair), [`margin`] says how much worse is too much, [`holm`] corrects
//! for the number of tests, [`power`] says what would decide an undecided one.
//!
//! [`dispersion`] and [`distance`] describe traffic and compare it with what was made to be like it.
//!
//! Apart from it [`search`] finds the largest load at which something still holds, from trials that err.

pub mod design;
pub mod dispersion;
pub mod distance;
pub mod error_rate;
pub mod fisher;
pub mod history;
pub mod holm;
pub mod margin;
pub mod moderated;
pub mod p_value;
pub mod paired;
pub mod power;
pub mod quantile;
pub mod recovery;
pub mod search;
pub mod slope;
pub mod steady;
pub mod student;
pub mod threshold;
pub mod trend;

mod sample;

#[cfg(test)]
mod moderated_tests;
#[cfg(test)]
mod reference_tests;
