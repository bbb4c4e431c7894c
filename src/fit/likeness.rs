//! How like the trace the plan of a fitted workload is, each number and two of them together.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::base::units::Nanos;
use crate::fit::{Window, real};
use crate::plan::request::{PlannedCell, PlannedRequest};
use crate::stats::dispersion::{coefficient_of_variation, index_of_dispersion};
use crate::stats::distance::{kolmogorov_smirnov, kolmogorov_smirnov_by_chance, spearman};
use crate::trace::request::Requests;
use crate::trace::shape::Reuse;

/// A window of a trace beside the plan of its cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Likeness {
    /// The window.
    pub trace: Measured,
    /// The measured requests of the plan.
    pub plan: Measured,
    /// Between the gaps of arrivals; none without instants.
    pub gaps: Option<Distance>,
    /// Between the lengths of prompts.
    pub prompt_tokens: Option<Distance>,
    /// Between the lengths of answers; none where the trace does not tell them.
    pub output_tokens: Option<Distance>,
}

/// Some requests in numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// How many.
    pub requests: usize,
    /// Requests per second.
    pub rate_per_s: Option<f64>,
    /// Coefficient of variation of the gaps.
    pub gap_cv: Option<f64>,
    /// Index of dispersion of the counts of windows of 1 s; none with fewer than ten of them.
    pub dispersion_1s: Option<f64>,
    /// Index of dispersion of the counts of windows of 10 s.
    pub dispersion_10s: Option<f64>,
    /// Mean tokens of a prompt.
    pub prompt_tokens: f64,
    /// Mean tokens of an answer, of those that are known.
    pub output_tokens: Option<f64>,
    /// Rank correlation of the lengths of prompts and answers; none where one of them never changes.
    pub rank_correlation: Option<f64>,
    /// Share of all tokens of prompts that an earlier request had; none where the trace does not tell.
    pub known_share: Option<f64>,
}

/// How far apart two distributions are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Distance {
    /// The distance of Kolmogorov and Smirnov.
    pub ks: f64,
    /// What chance alone exceeds once in twenty.
    pub by_chance: f64,
}

impl Distance {
    fn between(one: &[f64], other: &[f64]) -> Option<Self> {
        let by_chance = kolmogorov_smirnov_by_chance(one.len(), other.len());
        Some(Self { ks: kolmogorov_smirnov(one, other)?, by_chance })
    }
}

impl Likeness {
    pub(super) fn of(trace: &Sample, plan: &Sample) -> Self {
        let outputs = |sample: &Sample| sample.pairs().iter().map(|(_, output)| *output).collect::<Vec<_>>();
        Self {
            trace: trace.measured(),
            plan: plan.measured(),
            gaps: Distance::between(&trace.gaps(), &plan.gaps()),
            prompt_tokens: Distance::between(&trace.prompts(), &plan.prompts()),
            output_tokens: Distance::between(&outputs(trace), &outputs(plan)),
        }
    }
}

/// Requests of one side.
pub(super) struct Sample {
    /// Seconds from the begin of the time that they stand for; empty without instants.
    instants: Vec<f64>,
    /// The length of that time.
    end: f64,
    lengths: Vec<(u32, Option<u32>)>,
    known: Option<f64>,
}

impl Sample {
    /// A window of the trace.
    pub(super) fn of_trace(trace: &Requests, reuse: &[Reuse], window: &Window) -> Self {
        let rows = trace.rows.get(window.rows.clone()).unwrap_or_default();
        let known = reuse.get(window.rows.clone()).unwrap_or_default().iter().map(|one| f64::from(one.known));
        let all: f64 = rows.iter().map(|row| f64::from(row.prompt_tokens)).sum();
        Self {
            instants: rows.iter().filter(|_| trace.arrivals).map(|row| row.at.since(window.from).as_secs()).collect(),
            end: window.until.since(window.from).as_secs(),
            lengths: rows.iter().map(|row| (row.prompt_tokens, row.output_tokens)).collect(),
            known: trace.block_tokens.is_some().then(|| known.sum::<f64>() / all),
        }
    }

    /// The measured requests of a plan; what the warm-up had is known to them.
    pub(super) fn of_plan(cell: &PlannedCell) -> Self {
        let mut met = BTreeSet::new();
        let mut known = |request: &PlannedRequest| -> f64 {
            let parts = request.prompt.prefix.iter();
            parts.filter(|part| !met.insert(part.seed)).map(|part| f64::from(part.words)).sum()
        };
        let _warmed: f64 = cell.warmup.iter().map(&mut known).sum();
        let known: f64 = cell.requests.iter().map(known).sum();
        let all: f64 = cell.requests.iter().map(|request| f64::from(request.prompt.words)).sum();
        let begin = cell.warmup.last().and_then(|request| request.due).unwrap_or(Nanos::ZERO);
        let due = |request: &PlannedRequest| Some(request.due?.since(begin).as_secs());
        let instants: Vec<f64> = cell.requests.iter().filter_map(due).collect();
        Self {
            end: instants.last().copied().unwrap_or(0.0),
            instants,
            lengths: cell.requests.iter().map(|one| (one.prompt.words, Some(one.output_tokens))).collect(),
            known: Some(known / all),
        }
    }

    fn gaps(&self) -> Vec<f64> {
        self.instants.iter().zip(self.instants.iter().skip(1)).map(|(one, next)| next - one).collect()
    }

    fn prompts(&self) -> Vec<f64> {
        self.lengths.iter().map(|(prompt, _)| f64::from(*prompt)).collect()
    }

    fn pairs(&self) -> Vec<(f64, f64)> {
        self.lengths.iter().filter_map(|(prompt, output)| Some((f64::from(*prompt), f64::from((*output)?)))).collect()
    }

    fn measured(&self) -> Measured {
        let pairs = self.pairs();
        let mean = |values: &[f64]| values.iter().sum::<f64>() / real(values.len());
        let outputs: Vec<f64> = pairs.iter().map(|(_, output)| *output).collect();
        Measured {
            requests: self.lengths.len(),
            rate_per_s: (self.end > 0.0).then(|| real(self.instants.len()) / self.end),
            gap_cv: coefficient_of_variation(&self.gaps()),
            dispersion_1s: index_of_dispersion(&self.instants, 1.0, self.end),
            dispersion_10s: index_of_dispersion(&self.instants, 10.0, self.end),
            prompt_tokens: mean(&self.prompts()),
            output_tokens: (!outputs.is_empty()).then(|| mean(&outputs)),
            rank_correlation: spearman(&pairs),
            known_share: self.known,
        }
    }
}
