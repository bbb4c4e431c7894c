//! Why a change of the baselines is not made, and what to do instead.

use crate::base::digest::Digest;
use crate::verdict::judgement::Verdict;

/// A refusal. Nothing was changed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// No runs were given.
    #[error("no runs were given; name the run folders of the measurement")]
    NoRuns,
    /// An approver, reason or time that says nothing.
    #[error("{0} is missing, longer than 500 bytes, or holds control characters; say it in one line")]
    Unsaid(&'static str),
    /// A time that is none.
    #[error("`{0}` is not a time; write RFC 3339 in UTC, such as 2026-01-31T12:00:00Z")]
    NotATime(String),
    /// An interrupted run.
    #[error("run {run} was interrupted; measure it again to its end")]
    Incomplete {
        /// Folder of the run.
        run: String,
    },
    /// A run that no decision could use.
    #[error("run {run} does not count at {cells}: it {seen}; {fix}, or name only runs that count")]
    DoesNotCount {
        /// Folder of the run.
        run: String,
        /// The cells.
        cells: String,
        /// What was seen.
        seen: String,
        /// What to do.
        fix: &'static str,
    },
    /// A run of another release.
    #[error("run {run} measured release `{found}`, not `{expected}`; name only runs of the release you approve")]
    WrongRelease {
        /// Folder of the run.
        run: String,
        /// Release of the run.
        found: String,
        /// Release that was approved.
        expected: String,
    },
    /// A run of another workload.
    #[error("run {run} is of workload `{found}`, not `{expected}`; name only runs of this workload")]
    WrongWorkload {
        /// Folder of the run.
        run: String,
        /// Workload of the run.
        found: String,
        /// Workload of the baseline.
        expected: String,
    },
    /// The same run, or the same place in a session, twice.
    #[error("run {run} is there twice: {what}; name each run once")]
    Duplicate {
        /// Folder of the run.
        run: String,
        /// The digest, or the session and sequence.
        what: String,
    },
    /// Runs of one release that were not made alike.
    #[error(
        "run {run} differs from the others in {what}; runs of one release must be made alike: measure again, or `--rebase REASON` with runs that agree"
    )]
    Mixed {
        /// Folder of the run.
        run: String,
        /// In what, with both values.
        what: String,
    },
    /// Measured unlike the active baseline.
    #[error("the measurement differs from the active baseline in {what}; if that is meant, `--rebase REASON`")]
    Moved {
        /// In what, with both values.
        what: String,
    },
    /// The first baseline exists.
    #[error(
        "release `{active}` is the active baseline already; leave out `--initial`, or use `--add-session` or `--rebase REASON`"
    )]
    NotInitial {
        /// The active release.
        active: String,
    },
    /// There is no baseline yet.
    #[error("there is no active baseline; use `--initial` for the first one")]
    NoActive,
    /// The release is the active one.
    #[error("release `{0}` is the active baseline already; use `--add-session` to add to it")]
    SameRelease(String),
    /// A session of another release.
    #[error(
        "`--add-session` adds to the active release `{active}`, not to `{found}`; leave it out to approve `{found}`"
    )]
    OtherRelease {
        /// The active release.
        active: String,
        /// The release of the measurement.
        found: String,
    },
    /// A session that the baseline has.
    #[error(
        "session `{0}` is in the baseline already; a further session is another allocation of hardware with its own name"
    )]
    SameSession(String),
    /// A measurement that was not judged.
    #[error(
        "the measurement was not judged against the active baseline; judge it with `--policy`, or `--rebase REASON`"
    )]
    NotJudged,
    /// A measurement that may not become a baseline.
    #[error("the measurement's verdict against the active baseline is {verdict} ({evidence}); {}", remedy(*verdict, *adds))]
    Verdict {
        /// The verdict.
        verdict: Verdict,
        /// Whether a session was to be added.
        adds: bool,
        /// Digest of the judgement.
        evidence: Digest,
    },
    /// A rollback to what is active.
    #[error("release `{0}` is the active baseline already; `servegate baseline history` shows what was active before")]
    AlreadyActive(String),
    /// An anchor that is one.
    #[error("release `{0}` is the anchor already")]
    AlreadyAnchor(String),
}

fn remedy(verdict: Verdict, adds: bool) -> &'static str {
    match verdict {
        Verdict::Fail if adds => {
            "the same release is shown worse than in its other sessions: find out why, and measure the session again"
        }
        Verdict::Fail => "fix the release, or accept the regression with `--rebase REASON`",
        Verdict::Inconclusive => "measure more runs until it is decided, or `--rebase REASON`",
        Verdict::NotComparable => {
            "measure under the baseline's conditions, or `--rebase REASON` when they changed for good"
        }
        Verdict::Error => "repair the measurement and make it again",
        Verdict::NotApplicable | Verdict::Pass | Verdict::Warn => "judge it with a policy that applies",
    }
}
