//! How requests arrive, and the phases of a cell.

use std::fmt;

use serde::Serialize;

use crate::base::units::Nanos;

/// How requests arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Closed loop: this many in flight; a request is due the instant a slot is free.
    Closed {
        /// Requests in flight.
        concurrency: u32,
    },
    /// Open loop: Poisson arrivals.
    Poisson {
        /// Mean arrival rate, requests per second.
        rate: f64,
    },
    /// Open loop: one arrival every `1 / rate` seconds.
    Constant {
        /// Arrival rate, requests per second.
        rate: f64,
    },
    /// Open loop: independent gamma gaps.
    Gamma {
        /// Mean arrival rate, requests per second.
        rate: f64,
        /// Shape of the gaps: 1 is Poisson, less comes in clusters, more is more even. The squared coefficient of
        /// variation of a gap is its reciprocal.
        burstiness: f64,
    },
    /// Open loop: Poisson arrivals whose rate goes from one to another in a straight line and then stays.
    Ramp {
        /// Rate at the start, requests per second.
        from: f64,
        /// Rate at the end, requests per second.
        to: f64,
        /// Time from the one to the other.
        over: Nanos,
    },
    /// Open loop: Poisson arrivals with a burst at the end of every period.
    Bursts {
        /// Rate outside the bursts, requests per second.
        rate: f64,
        /// Length of a period.
        every: Nanos,
        /// What the burst is.
        burst: Burst,
    },
    /// Open loop: Poisson arrivals for a time, silence for a time, and again.
    OnOff {
        /// Rate while on, requests per second.
        rate: f64,
        /// Time with arrivals; a period begins with it.
        on: Nanos,
        /// Time without.
        off: Nanos,
    },
    /// Open loop: the instants of a recorded trace.
    Trace,
    /// One request at a time, each due after the target had nothing to do for a while.
    Idle {
        /// The silence before each request.
        pause: Nanos,
    },
}

/// A burst of arrivals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Burst {
    /// So many requests at one instant, beside the others.
    Requests(u32),
    /// Another rate in place of the usual one.
    Rate {
        /// Requests per second.
        rate: f64,
        /// How long it holds; shorter than the period.
        length: Nanos,
    },
}

impl Load {
    /// Whether requests have due instants of their own, whatever the target does.
    pub const fn is_open(self) -> bool {
        match self {
            Self::Closed { .. } | Self::Idle { .. } => false,
            Self::Poisson { .. }
            | Self::Constant { .. }
            | Self::Gamma { .. }
            | Self::Ramp { .. }
            | Self::Bursts { .. }
            | Self::OnOff { .. }
            | Self::Trace => true,
        }
    }

    /// Arrivals per second, on average; of a ramp those at its start. Zero where nothing arrives by itself.
    pub fn rate(self) -> f64 {
        match self {
            Self::Closed { .. } | Self::Idle { .. } | Self::Trace => 0.0,
            Self::Poisson { rate }
            | Self::Constant { rate }
            | Self::Gamma { rate, .. }
            | Self::Ramp { from: rate, .. } => rate,
            Self::Bursts { rate, every, burst: Burst::Requests(requests) } => {
                rate + f64::from(requests) / every.as_secs()
            }
            Self::Bursts { rate, every, burst: Burst::Rate { rate: high, length } } => {
                (rate * every.since(length).as_secs() + high * length.as_secs()) / every.as_secs()
            }
            Self::OnOff { rate, on, off } => rate * on.as_secs() / (on + off).as_secs(),
        }
    }

    /// Whether the load at the end may be another than at the start, so that no steady state is to be expected.
    pub const fn is_trending(self) -> bool {
        matches!(self, Self::Ramp { .. } | Self::Trace)
    }
}

/// The parts of a cell's time line, in its order. A cell without phases is all steady.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The first requests, before any warm-up.
    Cold,
    /// What a cell is about: behind its warm-up, under its load.
    #[default]
    Steady,
    /// Single requests after silence.
    Idle,
    /// Another load.
    Burst,
    /// The cell's load again, right after the burst.
    Recovery,
    /// The cell's load for long: what has aged since the steady phase.
    Soak,
}

impl Phase {
    /// All, in the order of the time line.
    pub const ALL: [Self; 6] = [Self::Cold, Self::Steady, Self::Idle, Self::Burst, Self::Recovery, Self::Soak];

    /// As people write it.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Steady => "steady",
            Self::Idle => "idle",
            Self::Burst => "burst",
            Self::Recovery => "recovery",
            Self::Soak => "soak",
        }
    }

    /// The phase of this name.
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.id() == id)
    }

    /// The name of this phase of a cell in plans, records, checks and reports: `c8` when steady, else `c8/burst`.
    pub fn of(self, cell: &str) -> String {
        match self {
            Self::Steady => cell.to_owned(),
            Self::Cold | Self::Idle | Self::Burst | Self::Recovery | Self::Soak => format!("{cell}/{self}"),
        }
    }

    /// The cell of a name that [`Phase::of`] made. Names of cells have no slash.
    pub fn cell(name: &str) -> &str {
        name.split_once('/').map_or(name, |(cell, _)| cell)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_and_its_cell_are_one_name() {
        for phase in Phase::ALL {
            assert_eq!(Phase::from_id(phase.id()), Some(phase));
            assert_eq!(Phase::cell(&phase.of("c8")), "c8");
        }
        assert_eq!((Phase::Steady.of("c8").as_str(), Phase::Idle.of("c8").as_str()), ("c8", "c8/idle"));
        assert!(Phase::ALL.is_sorted() && Phase::from_id("warm").is_none());
    }
}
