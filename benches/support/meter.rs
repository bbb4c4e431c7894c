//! What a measurement costs: wall time, processor time of the whole process, peak memory.

use std::fs;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Time since a start.
pub(crate) struct Meter {
    wall: Instant,
    cpu: Duration,
}

impl Meter {
    /// Starts now.
    pub(crate) fn start() -> Self {
        Self { wall: Instant::now(), cpu: processor_time() }
    }

    /// Wall time and processor time since the start, in seconds.
    pub(crate) fn stop(&self) -> [f64; 2] {
        let (wall, cpu) = (self.wall.elapsed(), processor_time().saturating_sub(self.cpu));
        [wall.as_secs_f64(), cpu.as_secs_f64()]
    }
}

/// Processor time of all threads of this process, user and system.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap()
}

/// The most memory that this process has held, in MB.
pub(crate) fn peak_mb() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() * 1024.0 / 1e6
}

/// How busy the host is: figures of a loaded machine are not comparable.
pub(crate) fn load() -> String {
    let average = fs::read_to_string("/proc/loadavg").unwrap();
    let cores = std::thread::available_parallelism().unwrap();
    format!("{cores} cores, load average {}", average.split(' ').take(3).collect::<Vec<_>>().join(" "))
}

/// The middle of the values (the upper one of two).
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
