//! How the load generator's own host fares: a number that was measured on a host without time to spare is no number.

use std::fs;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::artifact::run::HostEvidence;

/// The processor's counters since boot, in ticks of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    total: u64,
    idle: u64,
    steal: u64,
    own: u64,
    cores: u32,
}

impl Look {
    /// Reads the counters; none where the system has no such files (only Linux has).
    pub(crate) fn now() -> Option<Self> {
        Self::of(&fs::read_to_string("/proc/stat").ok()?, &fs::read_to_string("/proc/self/stat").ok()?)
    }

    /// From the texts of `/proc/stat` and `/proc/self/stat` (proc(5)).
    fn of(host: &str, own: &str) -> Option<Self> {
        let cores = host.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu ")).count();
        // user nice system idle iowait irq softirq steal; what follows is in user already.
        let numbers = |text: &str, skip: usize, take: usize| {
            let fields = text.split_ascii_whitespace().skip(skip).take(take);
            fields.map(|field| field.parse().ok()).collect::<Option<Vec<u64>>>()
        };
        let fields = numbers(host.lines().next()?.strip_prefix("cpu ")?, 0, 8)?;
        let [_, _, _, idle, iowait, _, _, steal] = *fields.as_slice() else { return None };
        // The name may hold anything, a closing parenthesis too; utime and stime are the 12th and 13th after it.
        let [user, system] = *numbers(own.rsplit_once(')')?.1, 11, 2)?.as_slice() else { return None };
        Some(Self {
            total: fields.iter().sum(),
            idle: idle.saturating_add(iowait),
            steal,
            own: user.saturating_add(system),
            cores: u32::try_from(cores).ok()?,
        })
    }

    /// What happened since an earlier look; none when the counters did not move.
    pub(crate) fn since(self, before: Self) -> Option<HostEvidence> {
        let total = self.total.checked_sub(before.total).filter(|total| *total > 0)?;
        let share = |now: u64, before: u64| ratio(now.saturating_sub(before).min(total), total);
        let own = share(self.own, before.own);
        let busy = 1.0 - share(self.idle, before.idle);
        Some(HostEvidence { cores: self.cores, busy, steal: share(self.steal, before.steal), own })
    }
}

#[expect(clippy::cast_precision_loss, reason = "ticks of a cell are far below 2^53")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

/// Files that are open besides connections: records, terminal, libraries.
const OTHER_FILES: u64 = 64;

/// Why the host cannot open as many connections as a cell needs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Open files.
    #[error("{needed} connections need as many open files, and the host allows {allowed}; raise it with `ulimit -n {}`", .needed + OTHER_FILES)]
    Files {
        /// Connections.
        needed: u64,
        /// The limit.
        allowed: u64,
    },
    /// Local ports.
    #[error(
        "{needed} connections need as many local ports, and the host has {available}; widen net.ipv4.ip_local_port_range"
    )]
    Ports {
        /// Connections.
        needed: u64,
        /// The range.
        available: u64,
    },
}

/// Open files that are asked for in any case, where the hard limit allows them: what an open loop needs shows only when
/// the target is slow. Some hard limits are beyond any use, and programs that are started inherit the soft one.
const USUAL_FILES: u64 = 65_536;

/// Makes room for so many connections, or says why there is none. The soft limit of open files is raised as far as the
/// hard one allows, to what may be of use.
///
/// # Errors
/// See [`HostError`].
pub fn make_room(connections: u64) -> Result<(), HostError> {
    let ports = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok();
    let range = ports.as_deref().and_then(|text| {
        let mut ends = text.split_ascii_whitespace().map(|end| end.parse::<u64>().ok());
        Some((ends.next()??, ends.next()??))
    });
    let files = getrlimit(Resource::RLIMIT_NOFILE).ok();
    if let Some((soft, hard)) = files {
        let wanted = wanted_files(connections, hard);
        if soft < wanted && setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).is_err() {
            return admit(connections, Some(soft), range);
        }
    }
    admit(connections, files.map(|(_, hard)| hard), range)
}

/// The soft limit to set under a hard one.
fn wanted_files(connections: u64, hard: u64) -> u64 {
    connections.saturating_add(OTHER_FILES).max(USUAL_FILES).min(hard)
}

fn admit(needed: u64, files: Option<u64>, ports: Option<(u64, u64)>) -> Result<(), HostError> {
    if let Some(allowed) = files.filter(|allowed| needed.saturating_add(OTHER_FILES) > *allowed) {
        return Err(HostError::Files { needed, allowed });
    }
    let available = ports.map(|(first, last)| last.saturating_sub(first).saturating_add(1));
    match available.filter(|available| needed > *available) {
        Some(available) => Err(HostError::Ports { needed, available }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(user: u64, idle: u64, steal: u64) -> String {
        format!("cpu  {user} 0 0 {idle} 0 0 0 {steal} 5 5\ncpu0 1 2 3 4 5 6 7 8\ncpu1 1 2 3 4 5 6 7 8\nintr 12\n")
    }

    fn own(user: u64, system: u64) -> String {
        format!("42 (a ) name) S 1 42 42 0 -1 4194304 100 0 0 0 {user} {system} 0 0 20 0")
    }

    #[test]
    fn shares_are_of_all_processor_time_between_two_looks() {
        let before = Look::of(&host(1_000, 5_000, 10), &own(50, 10)).unwrap();
        let after = Look::of(&host(1_120, 5_070, 20), &own(70, 30)).unwrap();
        let found = after.since(before).unwrap();
        assert_eq!(found.cores, 2);
        for (share, expected) in [(found.busy, 0.65), (found.steal, 0.05), (found.own, 0.2)] {
            assert!((share - expected).abs() < 1e-12, "{found:?}");
        }
        assert_eq!(before.since(before), None);
        assert_eq!(before.since(after), None, "counters never go back");
    }

    #[test]
    fn connections_need_files_and_ports() {
        assert_eq!(admit(1_000, Some(1_064), Some((32_768, 60_999))), Ok(()));
        let files = admit(1_000, Some(1_063), None).unwrap_err();
        assert_eq!(files, HostError::Files { needed: 1_000, allowed: 1_063 });
        assert!(files.to_string().contains("ulimit -n 1064"), "{files}");
        let ports = admit(10_000, None, Some((50_000, 50_999))).unwrap_err();
        assert_eq!(ports, HostError::Ports { needed: 10_000, available: 1_000 });
        assert_eq!(make_room(8), Ok(()));
    }

    #[test]
    fn the_soft_limit_is_raised_to_what_may_be_of_use_and_never_beyond_the_hard_one() {
        for (connections, hard, wanted) in
            [(8, 1_024, 1_024), (8, 1 << 30, 65_536), (100_000, 1 << 30, 100_064), (100_000, 90_000, 90_000)]
        {
            assert_eq!(wanted_files(connections, hard), wanted, "{connections} {hard}");
        }
        make_room(8).unwrap();
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert!(soft >= wanted_files(8, hard));
    }

    #[test]
    fn what_is_no_such_file_says_nothing() {
        for (host, own) in [("", ""), ("cpu x", "1 (a) S"), ("cpu  1 2 3", "1 (a) S 1")] {
            assert_eq!(Look::of(host, own), None);
        }
    }
}
