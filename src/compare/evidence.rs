//! What one decision is made from: everything that was measured under one plan.

use std::collections::{BTreeMap, BTreeSet};

use crate::artifact::conditions::Known;
use crate::artifact::metrics::cell::CellData;
use crate::artifact::run::{Manifest, Run};
use crate::base::names::{Condition, Side};
use crate::plan::request::{Plan, PlannedCell};
use crate::spec::slice::Slice;

/// The runs of one decision. Nothing here is checked yet: [`crate::compare::rules`] does that.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// The plan that every run must have followed.
    pub plan: &'a Plan,
    /// The stored baseline, when there is one.
    pub baseline: Option<Baseline<'a>>,
    /// Runs of the baseline image inside the candidate's session, in the order they were measured.
    pub controls: &'a [Run],
    /// Runs of the candidate, in the order they were measured.
    pub candidate: &'a [Run],
    /// Runs of earlier releases, one slice per release, newest last: what is known about the noise.
    pub history: &'a [&'a [Run]],
    /// Whether controls and candidate were measured in turns and are compared pair by pair: runs `2i` and `2i + 1` of
    /// the session are a pair, one of each side. There is no stored baseline then.
    pub paired: bool,
}

/// The stored measurements of the last approved release.
#[derive(Clone, Copy, Debug)]
pub struct Baseline<'a> {
    /// The release.
    pub release: &'a str,
    /// Days since it was approved.
    pub age_days: u32,
    /// Its runs, all sessions together, each session's in the order they were measured.
    pub runs: &'a [Run],
}

impl<'a> Evidence<'a> {
    /// The runs of one side.
    pub fn runs(&self, side: Side) -> &'a [Run] {
        match side {
            Side::Baseline => self.baseline.map_or(&[], |baseline| baseline.runs),
            Side::Control => self.controls,
            Side::Candidate => self.candidate,
        }
    }

    /// Every run that is compared, with its side; history is not compared.
    pub fn all(&self) -> impl Iterator<Item = (Side, &'a Run)> {
        let evidence = *self;
        Side::ALL.iter().flat_map(move |side| evidence.runs(*side).iter().map(|run| (*side, run)))
    }

    /// The runs of the approved release: stored ones, then controls.
    pub fn reference(&self) -> impl Iterator<Item = &'a Run> {
        self.runs(Side::Baseline).iter().chain(self.controls)
    }

    /// The release that the candidate is compared with; none without a baseline and controls.
    pub fn baseline_release(&self) -> Option<&'a str> {
        let control = self.controls.first().map(|run| run.manifest.release.as_str());
        self.baseline.map(|baseline| baseline.release).or(control)
    }

    /// Whether every compared run had a boot of its own. If not, the passes of one side are one session whose
    /// effect is unknown, and controls cannot remove it.
    pub fn restarted(&self) -> bool {
        self.all().all(|(_, run)| run.manifest.restarted)
    }

    /// Whether controls can be measured beside the candidate: its deployment is restarted, and it is no session of a
    /// baseline, where every run is of the baseline image.
    pub fn controllable(&self) -> bool {
        self.candidate.iter().all(|run| run.manifest.restarted && run.manifest.side != Side::Baseline)
    }
}

/// A run as a person would name it: `candidate run 2 of session ci-481`.
pub fn name(side: Side, run: &Run) -> String {
    let session = session_name(&run.manifest.session);
    format!("{side} run {} of session {session}", run.manifest.sequence.saturating_add(1))
}

/// The name of a session, bounded and escaped.
pub fn session_name(session: &str) -> String {
    session.chars().take(64).flat_map(char::escape_default).collect()
}

/// The runs that count in one cell, grouped as the comparison needs them.
pub struct Selection<'a> {
    /// The stored baseline, by session.
    pub stored: Vec<Vec<CellData<'a>>>,
    /// Controls.
    pub controls: Vec<CellData<'a>>,
    /// Candidate.
    pub candidate: Vec<CellData<'a>>,
    /// Earlier releases, oldest first, each by session.
    pub history: Vec<Vec<Vec<CellData<'a>>>>,
    /// Whether the runs of both sides are pairs, in this order.
    pub paired: bool,
}

impl<'a> Evidence<'a> {
    /// What the runs that `usable` accepts measured in a part of `cell`, each beside the same part of `reference`, where there is one. Without restarts the passes of the baseline's side are one session, controls
    /// among them. Of a pair both runs count or neither. An earlier run counts where its noise can be the baseline's.
    pub fn select(
        &self,
        cell: &PlannedCell,
        (slice, reference): (&Slice, Option<&PlannedCell>),
        usable: impl Fn(&Run) -> bool,
    ) -> Selection<'a> {
        let part = |cell: &PlannedCell| (cell.name.clone(), cell.numbers(slice));
        let (own, reference) = (part(cell), reference.map(part));
        let of_part = |run: &'a Run, (name, numbers): &(String, Option<BTreeSet<u32>>)| match numbers {
            Some(numbers) => CellData::of(run, name).part(numbers),
            None => CellData::of(run, name),
        };
        let of = |run: &'a Run| match &reference {
            Some(reference) => of_part(run, &own).against(of_part(run, reference)),
            None => of_part(run, &own),
        };
        let keep = |runs: &'a [Run]| runs.iter().filter(|run| usable(run)).collect::<Vec<&Run>>();
        let (baseline, controls) = (keep(self.runs(Side::Baseline)), keep(self.controls));
        let candidate = keep(self.candidate);
        let (controls, candidate) =
            if self.paired { whole_pairs(&controls, &candidate) } else { (controls, candidate) };
        let (stored, controls) = if self.restarted() {
            (by_session(baseline), controls)
        } else {
            (vec![baseline.into_iter().chain(controls).collect()], vec![])
        };
        let alike = |run: &&Run| self.reference().next().is_some_and(|reference| same_noise(reference, run));
        let release = |runs: &&'a [Run]| by_session(keep(runs).into_iter().filter(alike).collect());
        let data = |runs: Vec<&'a Run>| runs.into_iter().map(of).collect::<Vec<_>>();
        let sessions = |sessions: Vec<Vec<&'a Run>>| sessions.into_iter().map(data).collect::<Vec<_>>();
        Selection {
            stored: sessions(stored),
            controls: data(controls),
            candidate: data(candidate),
            history: self.history.iter().map(release).map(sessions).collect(),
            paired: self.paired,
        }
    }
}

/// Whether two runs followed one plan over one transport with the same use of caches, without a known condition that matters and differs.
fn same_noise(one: &Run, other: &Run) -> bool {
    let (one, other) = (&one.manifest, &other.manifest);
    let transport = |m: &Manifest| (m.plan, m.clock, m.api, m.forced_length, m.restarted, m.caches);
    let differs = |(condition, known): (&Condition, &Known)| {
        !condition.is_nuisance() && other.conditions.get(condition).is_some_and(|found| found.value != known.value)
    };
    transport(one) == transport(other) && !one.conditions.iter().any(differs)
}

/// The pairs of which both runs are there.
fn whole_pairs<'a>(controls: &[&'a Run], candidate: &[&'a Run]) -> (Vec<&'a Run>, Vec<&'a Run>) {
    let pair = |run: &Run| run.manifest.sequence.div_euclid(2);
    let partner = |control: &&'a Run| candidate.iter().find(|run| pair(run) == pair(control)).copied();
    controls.iter().filter_map(|control| Some((*control, partner(control)?))).unzip()
}

fn by_session(runs: Vec<&Run>) -> Vec<Vec<&Run>> {
    let mut sessions: BTreeMap<&str, Vec<&Run>> = BTreeMap::new();
    for run in runs {
        sessions.entry(&run.manifest.session).or_default().push(run);
    }
    sessions.into_values().collect()
}
