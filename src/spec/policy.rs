//! A policy: which workload, which checks with which margins, and what an answer needs.

use crate::base::diagnostic::Place;
use crate::base::names::{Condition, Metric, Role, Statistic};
use crate::base::units::Nanos;
use crate::spec::load::Phase;
use crate::spec::slice::Slice;

/// A validated policy file.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Name.
    pub name: String,
    /// One sentence for people.
    pub description: String,
    /// Path of the workload file as written, relative to the policy's folder.
    pub workload: String,
    /// Candidate runs per session.
    pub runs: u32,
    /// Runs of the baseline image inside the candidate's session (needs `restart`).
    pub controls: u32,
    /// Conditions that a change may change; everything else must match.
    pub treatment: Vec<Condition>,
    /// The policy applies only where these conditions of the candidate have these values.
    pub when: Vec<(Condition, String)>,
    /// What the decision assumes and how strict it is.
    pub decision: Decision,
    /// A baseline older than this many days is expired.
    pub baseline_max_age_days: u32,
    /// The checks, one per cell; never empty.
    pub checks: Vec<Check>,
    /// The file itself.
    pub place: Place,
}

/// Parameters of the decision rule (`docs/statistics.md`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// Error level of the gate's fail, over the Holm family.
    pub alpha_fail: f64,
    /// Error level of each required check's pass.
    pub alpha_pass: f64,
    /// Prior standard deviation of the session effect.
    pub session_sd: f64,
    /// Prior degrees of freedom of the session effect.
    pub session_sd_df: f64,
}

impl Default for Decision {
    fn default() -> Self {
        Self { alpha_fail: 0.05, alpha_pass: 0.05, session_sd: 0.02, session_sd_df: 4.0 }
    }
}

/// One check: metric x statistic x cell with a margin and a role.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// What is measured.
    pub metric: Metric,
    /// How a run's values become one number.
    pub statistic: Statistic,
    /// Name of a cell of the workload.
    pub cell: String,
    /// Which of the cell's requests; by default all.
    pub slice: Slice,
    /// The number is the ratio of the cell's value to that of this phase of the same cell in the same run.
    pub against: Option<Phase>,
    /// Name of the cell, another phase of the same one, without which the check has no number: that of `against`, or the
    /// steady one for `time_to_recover`.
    pub reference: Option<String>,
    /// How much worse the candidate may be.
    pub margin: Margin,
    /// From this harm on a passing check is a `warn`, as a share (0.03 for 3 %).
    pub warn_at: Option<f64>,
    /// Absolute objective in the metric's unit; missed by the whole interval, the check fails.
    pub objective: Option<f64>,
    /// What the check may do to the gate.
    pub role: Role,
    /// For `goodput`: the limits a request must meet.
    pub limits: Vec<(Metric, Nanos)>,
    /// Where it stands in the policy file.
    pub place: Place,
}

impl Check {
    /// The stable name in every output: `tpot.p50@c8`, `throughput@c8`, `stall.p90@mixed:chat`.
    pub fn id(&self) -> String {
        format!("{}@{}", self.metric.with(self.statistic), self.subject())
    }

    /// What is judged: the cell, or a part of its requests ([`Slice::of`]), maybe against another phase:
    /// `c8/recovery:against=steady`. The name in every table.
    pub fn subject(&self) -> String {
        let part = self.slice.of(&self.cell);
        match self.against {
            None => part,
            Some(phase) if self.slice.is_whole() => format!("{part}:against={phase}"),
            Some(phase) => format!("{part},against={phase}"),
        }
    }

    /// The cells whose requests make its number.
    pub fn cells(&self) -> impl Iterator<Item = &str> {
        [self.cell.as_str()].into_iter().chain(self.reference.as_deref())
    }

    /// The phase that gives its reference, whatever the cell.
    pub fn reference_phase(&self) -> Option<Phase> {
        self.against.or((self.metric == Metric::TimeToRecover).then_some(Phase::Steady))
    }
}

/// How much worse the candidate may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Margin {
    /// `at_most: 5%`, for times and rates; for times with an optional `floor: 0.3ms` below which no
    /// difference counts. The margin is the larger of the two.
    Relative {
        /// Share, 0.05 for 5 %.
        ratio: f64,
        /// Absolute floor.
        floor: Option<Nanos>,
    },
    /// `at_most: 1pp`: difference of two shares, 0.01 for one percentage point.
    Points(f64),
    /// `within: 3%`: neither more nor less.
    Within(f64),
}
