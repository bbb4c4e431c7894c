//! What differs between sessions, boots and steps of one and the same deployment. Each source has a seed
//! of its own and can be switched off.

use crate::base::rng::Stream;
use crate::sim::profile::Profile;

/// Seeds of the noise sources; a source without a seed is off. The sizes are the profile's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noise {
    /// One per allocation of hardware: all boots in it are faster or slower together.
    pub session: Option<u64>,
    /// One per start of the deployment.
    pub boot: Option<u64>,
    /// Jitter of single steps.
    pub step: Option<u64>,
}

impl Noise {
    /// Every source off: the same deployment always takes the same time.
    pub const OFF: Self = Self { session: None, boot: None, step: None };

    /// All sources on. `boot` must differ between the boots of all sessions.
    pub const fn seeded(session: u64, boot: u64) -> Self {
        Self { session: Some(session), boot: Some(boot), step: Some(boot) }
    }
}

/// The factors by which step times are multiplied, all log-normal with median 1.
pub(crate) struct Factors {
    constant: f64,
    steps: Option<(Stream, f64)>,
}

impl Factors {
    pub(crate) fn new(profile: &Profile, noise: Noise) -> Self {
        let factor =
            |seed: Option<u64>, name, sigma| seed.map_or(1.0, |seed| Stream::named(seed, name).log_normal(sigma));
        Self {
            constant: factor(noise.session, "sim/session", profile.sigma_session)
                * factor(noise.boot, "sim/boot", profile.sigma_boot),
            steps: noise.step.map(|seed| (Stream::named(seed, "sim/step"), profile.sigma_step)),
        }
    }

    /// The factor of the next step.
    pub(crate) fn next(&mut self) -> f64 {
        self.constant * self.steps.as_mut().map_or(1.0, |(stream, sigma)| stream.log_normal(*sigma))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_independent_and_can_be_switched_off() {
        let profile = Profile::h100_8b();
        let draw = |noise| {
            let mut factors = Factors::new(&profile, noise);
            [factors.next(), factors.next()]
        };
        assert!(draw(Noise::OFF).iter().all(|factor| (factor - 1.0).abs() < f64::EPSILON));
        let boot = draw(Noise { boot: Some(1), ..Noise::OFF });
        assert!((boot[0] - boot[1]).abs() < f64::EPSILON && (boot[0] - 1.0).abs() > 1e-6);
        let session = draw(Noise { session: Some(1), ..Noise::OFF });
        let both = draw(Noise { session: Some(1), boot: Some(1), step: None });
        assert!((both[0] - boot[0] * session[0]).abs() < 1e-12);
        let steps = draw(Noise { step: Some(1), ..Noise::OFF });
        assert!((steps[0] - steps[1]).abs() > 1e-6);
    }
}
