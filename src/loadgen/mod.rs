//! The load generator: sends a plan's requests over a [`Transport`](crate::wire::transport::Transport)
//! and turns what comes back into records. The driver holds no clock of its own, so the same code runs
//! in real time against a deployment and in virtual time against the simulated engine.

mod answers;
mod budget;
pub mod codec;
pub mod drive;
pub mod event;
pub mod host;
pub mod http;
pub mod metered;
pub mod pass;
mod place;
#[cfg(test)]
mod scripted;
pub mod selfcheck;
mod window;
