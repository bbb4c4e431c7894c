//! A simulated LLM serving engine: the physics of a real one without its GPU. The model (`profile`,
//! `scenario`, `cost`, `kv`, `prefix`, `scheduler`, `noise`, `engine`) is pure; `voice` turns its events into the
//! bytes a vLLM server sends; `transport` carries them in virtual time and `server` over HTTP in real time.

pub mod ask;
#[cfg(test)]
mod checks;
pub mod cost;
mod counters;
pub mod engine;
pub mod fault;
pub mod kv;
pub mod noise;
pub mod prefix;
pub mod profile;
pub mod scenario;
pub mod scheduler;
pub mod server;
pub mod transport;
pub mod voice;

/// One boot of a simulated deployment: what it is, how it varies, what it does wrong.
#[derive(Clone, Debug)]
pub struct Deployment {
    /// Coefficients of the engine.
    pub profile: profile::Profile,
    /// What differs between boots and steps.
    pub noise: noise::Noise,
    /// Shares of requests that are answered wrongly.
    pub faults: Vec<fault::Share>,
}

impl Deployment {
    /// A deployment that makes no mistakes.
    pub const fn new(profile: profile::Profile, noise: noise::Noise) -> Self {
        Self { profile, noise, faults: Vec::new() }
    }
}
