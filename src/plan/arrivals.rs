//! When requests are due. Open-loop schedules are fixed before the run and never rescaled to what the
//! target or the generator manages.
//!
//! A process whose rate changes in time is a Poisson process seen through another clock: the arrivals of a
//! process of rate 1 are drawn, and each is moved to the instant at which the expected number of arrivals
//! reaches it (the inverse of the cumulative rate; Cinlar, Introduction to Stochastic Processes, 1975, chapter 4).

use crate::base::rng::Stream;
use crate::base::units::Nanos;
use crate::spec::workload::{Burst, Load};

/// Due instants from the cell's start, in order: the first `count` arrivals of the process, or nothing
/// in the closed loop. They are whole microseconds, the resolution in which due times are stored.
///
/// A Poisson process has independent exponential gaps with mean `1 / rate`, the first of them before
/// its first arrival.
pub(super) fn due(load: Load, count: u32, stream: &mut Stream) -> Vec<Option<Nanos>> {
    let mut process = Process { load, clock: 0.0, bursts: 0, left: 0, next: None };
    let at = |seconds: f64| Nanos::from_seconds(seconds).to_stored_resolution();
    (0..count).map(|number| process.arrival(number, stream).map(at)).collect()
}

/// An open loop while its arrivals are drawn.
struct Process {
    load: Load,
    /// Instant of the last random arrival: seconds, or expected arrivals where the rate changes.
    clock: f64,
    /// Bursts that have begun, or wait for their turn.
    bursts: u32,
    /// Requests of the present burst that are still to come.
    left: u32,
    /// A random arrival that waits for a burst before it.
    next: Option<f64>,
}

impl Process {
    /// The instant of the next arrival in seconds.
    fn arrival(&mut self, number: u32, stream: &mut Stream) -> Option<f64> {
        let mut after = |gap: f64| {
            self.clock += gap;
            self.clock
        };
        Some(match self.load {
            // A trace brings its own instants.
            Load::Closed { .. } | Load::Idle { .. } | Load::Trace => return None,
            Load::Poisson { rate } => after(stream.exponential() / rate),
            // Multiplied, not summed, so that rounding does not add up.
            Load::Constant { rate } => f64::from(number) / rate,
            Load::Gamma { rate, burstiness } => after(stream.gamma(burstiness) / (burstiness * rate)),
            Load::Ramp { from, to, over } => ramp(from, to, over.as_secs(), after(stream.exponential())),
            Load::OnOff { rate, on, off } => {
                periodic([(on.as_secs(), rate), (off.as_secs(), 0.0)], after(stream.exponential()))
            }
            Load::Bursts { rate, every, burst: Burst::Rate { rate: high, length } } => {
                periodic([(every.since(length).as_secs(), rate), (length.as_secs(), high)], after(stream.exponential()))
            }
            Load::Bursts { rate, every, burst: Burst::Requests(size) } => {
                self.beside_bursts(rate, every.as_secs(), size, stream)
            }
        })
    }

    /// The earlier of the next random arrival and the next request of a burst.
    fn beside_bursts(&mut self, rate: f64, every: f64, size: u32, stream: &mut Stream) -> f64 {
        if self.left == 0 {
            self.bursts += 1;
            self.left = size;
        }
        let burst = f64::from(self.bursts) * every;
        let next = *self.next.get_or_insert_with(|| {
            self.clock += stream.exponential() / rate;
            self.clock
        });
        if next < burst {
            self.next = None;
            return next;
        }
        self.left -= 1;
        burst
    }
}

/// The instant at which `expected` arrivals are expected, at a rate that goes from one to another within `over`
/// seconds: the root of `from t + (to - from) t^2 / (2 over) = expected`, written so that nothing cancels.
fn ramp(from: f64, to: f64, over: f64, expected: f64) -> f64 {
    let whole = 0.5 * (from + to) * over;
    if expected >= whole {
        return over + (expected - whole) / to;
    }
    let slope = (to - from) / over;
    2.0 * expected / (from + (from * from + 2.0 * slope * expected).max(0.0).sqrt())
}

/// The instant at which `expected` arrivals are expected, at a rate that repeats: each part is its length in
/// seconds and its rate.
fn periodic(parts: [(f64, f64); 2], expected: f64) -> f64 {
    let [(first, rate), (second, other)] = parts;
    let (before, whole) = (first * rate, first * rate + second * other);
    let periods = (expected / whole).floor();
    let left = (expected - periods * whole).max(0.0);
    let within = if left < before || other <= 0.0 { (left / rate).min(first) } else { first + (left - before) / other };
    periods * (first + second) + within
}
