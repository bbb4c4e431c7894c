//! A judgement as data: what every report is made from.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::base::diagnostic::Place;
use crate::base::names::{CacheMode, Metric, Role, Statistic};
pub use crate::compare::conditions::Difference;
pub use crate::compare::effect::Effect;
use crate::spec::workload::Phase;

/// The answer to one check, one policy, or a whole gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The rule's `when` does not match; not counted.
    NotApplicable,
    /// Shown to be no worse than the margin.
    Pass,
    /// Inside the margin, but shown worse and past the policy's warn line. Of a policy also: a guard on the error rate is
    /// undecided, and more requests fail than by chance.
    Warn,
    /// The interval straddles the margin.
    Inconclusive,
    /// The two sides may not be compared.
    NotComparable,
    /// Could not be measured.
    Error,
    /// Shown worse than the margin.
    Fail,
}

impl Verdict {
    /// Every verdict, least severe first: the worst of several is their maximum.
    pub const ALL: [Self; 7] =
        [Self::NotApplicable, Self::Pass, Self::Warn, Self::Inconclusive, Self::NotComparable, Self::Error, Self::Fail];

    /// The text form, as in files.
    pub const fn id(self) -> &'static str {
        match self {
            Self::NotApplicable => "not_applicable",
            Self::Pass => "pass",
            Self::Warn => "warn",
            Self::Inconclusive => "inconclusive",
            Self::NotComparable => "not_comparable",
            Self::Error => "error",
            Self::Fail => "fail",
        }
    }

    /// The process's exit code under the strict exit policy.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::NotApplicable | Self::Pass | Self::Warn => 0,
            Self::Fail => 1,
            Self::Inconclusive => 2,
            Self::NotComparable => 3,
            Self::Error => 4,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.id())
    }
}

/// One gate decision: all its policies. Pure data; the same inputs give the same bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judgement {
    /// The worst verdict of the policies; `error` when none was judged.
    pub verdict: Verdict,
    /// Release of the candidate.
    pub candidate: String,
    /// One per policy, in the order given.
    pub policies: Vec<PolicyJudgement>,
}

/// The answer of one policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PolicyJudgement {
    /// Name of the policy.
    pub policy: String,
    /// Its file.
    pub place: Place,
    /// Name of the workload.
    pub workload: String,
    /// The worst that its checks and its validity findings contribute.
    pub verdict: Verdict,
    /// One sentence for a reviewer: what is blocked, where, by how much, against what.
    pub sentence: String,
    /// Number of checks with each verdict; verdicts without a check are absent.
    pub counts: BTreeMap<Verdict, u32>,
    /// What was measured and compared.
    pub design: Design,
    /// Conditions in which the sides differ.
    pub differences: Vec<Difference>,
    /// What makes the measurement invalid or incomparable, as a whole or in one cell; broken invariants, and warnings.
    pub findings: Vec<Finding>,
    /// What a reader must know and no check says: session effect assumed, environment drift, few runs.
    pub notes: Vec<String>,
    /// One per check, in policy order.
    pub checks: Vec<CheckJudgement>,
}

/// What was measured and compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Design {
    /// Release of the baseline; none when there is no baseline.
    pub baseline: Option<String>,
    /// Sessions of the stored baseline.
    pub baseline_sessions: u32,
    /// Runs of the stored baseline, all sessions together.
    pub baseline_runs: u32,
    /// Control runs in the candidate's session.
    pub controls: u32,
    /// Candidate runs.
    pub candidate_runs: u32,
    /// False when passes were not separated by a restart: the session effect is then unknown.
    pub restarted: bool,
    /// What kept the server's caches from answering with what earlier runs had left; none: they were left as they were.
    pub caches: Option<CacheMode>,
    /// Fingerprint of the plan, short form.
    pub plan: String,
}

/// Something that keeps a measurement, or one cell of it, from being judged; an invariant that is broken (`fail`); or
/// something that no check may hide (`warn`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// `error`, `not_comparable`, `fail` for a broken invariant, or `warn`.
    pub verdict: Verdict,
    /// Stable, kebab-case: `plan-differs`, `not-steady`, `client-saturated`, ...
    pub code: &'static str,
    /// The cell; none for the whole measurement.
    pub cell: Option<String>,
    /// What was seen, why it matters, what to do.
    pub message: String,
}

impl Finding {
    /// The reason of a check that this finding keeps from being judged. Every report has the findings before the checks.
    pub fn reference(&self) -> String {
        let cell = self.cell.as_ref().map(|cell| format!(" at {cell}")).unwrap_or_default();
        format!("not judged: {}{cell}, see above", self.code)
    }
}

/// The answer of one check.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckJudgement {
    /// Stable name: `tpot.p50@c8`.
    pub id: String,
    /// What is measured.
    pub metric: Metric,
    /// How a run's values become one number.
    pub statistic: Statistic,
    /// The cell, or the part of one: `mixed:chat`.
    pub cell: String,
    /// The phase of the same run that values are divided by; none: values are in the metric's unit.
    pub against: Option<Phase>,
    /// What it may do to the gate.
    pub role: Role,
    /// Where it stands in the policy file.
    pub place: Place,
    /// The answer.
    pub verdict: Verdict,
    /// Why, in one sentence with numbers.
    pub reason: String,
    /// The effect, when it could be estimated.
    pub effect: Option<Effect>,
    /// The margin as it was applied, in the same terms as [`Effect::change`] but towards harm:
    /// 0.05 means 5 % worse (or 5 points, for shares).
    pub margin: f64,
    /// The margin's absolute floor in the metric's unit, where it allows more than the percentage: then it is `margin`.
    pub margin_floor: Option<f64>,
    /// Evidence against the margin, Holm-adjusted over the gate's family; none where too few runs can never fail.
    pub p_fail: Option<f64>,
    /// Evidence that the effect is inside the margin.
    pub p_pass: Option<f64>,
    /// Smallest true harm that would have failed with 80 % probability.
    pub minimum_detectable: Option<f64>,
    /// For an inconclusive check: what would decide it.
    pub to_decide: Option<String>,
}

impl CheckJudgement {
    /// The unit of its values: that of the metric, or `ratio` of two phases.
    pub const fn unit(&self) -> &'static str {
        if self.against.is_some() { "ratio" } else { self.metric.unit() }
    }
}
