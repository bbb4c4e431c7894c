//! Made-up runs with chosen latencies, for the tests of `compare` and `verdict` and, by path, for the benches.

pub(crate) mod policy;

use std::collections::BTreeMap;

use crate::artifact::conditions::{Known, Source};
use crate::artifact::record::{Chunk, Outcome, Record, TokenSource};
use crate::artifact::run::{CellEvidence, ClockKind, FORMAT, Manifest, Run};
use crate::base::digest::Digest;
use crate::base::names::{Api, Condition, Metric, Side};
use crate::base::rng::Stream;
use crate::base::units::Nanos;
use crate::compare::evidence::{Baseline, Evidence};
use crate::plan::request::{Form, Plan, PlannedCell, PlannedRequest, PromptRecipe};
use crate::spec::workload::{Load, Phase};

/// What the requests of a cell look like in one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traffic {
    /// Median time to first token, in ms.
    pub(crate) ttft: f64,
    /// Time per output token, in ms.
    pub(crate) tpot: f64,
    /// Output tokens of each request.
    pub(crate) tokens: u32,
    /// Measured requests.
    pub(crate) requests: u32,
    /// How many of them failed, the first ones.
    pub(crate) failed: u32,
    /// How much later than due they were sent, in ms.
    pub(crate) lag: f64,
    /// How much slower the last third was than the first, as a factor on both times.
    pub(crate) drift: f64,
}

impl Default for Traffic {
    fn default() -> Self {
        Self { ttft: 200.0, tpot: 20.0, tokens: 6, requests: 40, failed: 0, lag: 0.0, drift: 1.0 }
    }
}

/// The runs of one decision, to be changed by a test before it is judged.
#[derive(Clone, Debug)]
pub(crate) struct Sides {
    pub(crate) plan: Plan,
    pub(crate) baseline: Vec<Run>,
    pub(crate) has_baseline: bool,
    pub(crate) age_days: u32,
    pub(crate) controls: Vec<Run>,
    pub(crate) candidate: Vec<Run>,
}

/// How many runs a decision has, and how noisy they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Sessions of the stored baseline, of two runs each.
    pub(crate) sessions: u32,
    pub(crate) controls: u32,
    pub(crate) candidate: u32,
    /// Standard deviation of the logarithm of a run's times.
    pub(crate) run_sd: f64,
    /// The same for what a session's runs share.
    pub(crate) session_sd: f64,
    pub(crate) seed: u64,
    /// The baseline's traffic.
    pub(crate) traffic: Traffic,
}

impl Default for Shape {
    fn default() -> Self {
        let traffic = Traffic::default();
        Self { sessions: 3, controls: 3, candidate: 5, run_sd: 0.005, session_sd: 0.0, seed: 1, traffic }
    }
}

pub(crate) const CELLS: [&str; 2] = ["c1", "c8"];

impl Sides {
    /// Baseline and candidate with the same traffic in cells `c1` and `c8`, but for what `change` does to the
    /// candidate's.
    pub(crate) fn new(shape: Shape, change: impl Fn(&str, &mut Traffic)) -> Self {
        let mut stream = Stream::named(shape.seed, "synthetic");
        let mut cells = |session: [f64; 4], change: &dyn Fn(&str, &mut Traffic)| {
            let mut cell = |name: &'static str, session: [f64; 2]| {
                let mut traffic = shape.traffic;
                change(name, &mut traffic);
                traffic.ttft *= (session[0] + shape.run_sd * stream.normal()).exp();
                traffic.tpot *= (session[1] + shape.run_sd * stream.normal()).exp();
                (name, traffic)
            };
            [cell("c1", [session[0], session[1]]), cell("c8", [session[2], session[3]])]
        };
        let mut effects = Stream::named(shape.seed, "sessions");
        let mut effect = || [(); 4].map(|()| shape.session_sd * effects.normal());
        let mut baseline = vec![];
        for session in 0..shape.sessions {
            let (name, effect) = (format!("s{session}"), effect());
            baseline.extend((0..2).map(|n| run(Side::Baseline, (&name, n), &cells(effect, &|_, _| {}))));
        }
        let here = effect();
        let (mut controls, mut candidate) = (vec![], vec![]);
        let (mut left, mut sequence) = (shape.controls, 0);
        // Candidate, control, candidate, control, ... and the rest of the candidate's.
        for _ in 0..shape.candidate {
            candidate.push(run(Side::Candidate, ("now", sequence), &cells(here, &change)));
            sequence += 1;
            if left > 0 {
                controls.push(run(Side::Control, ("now", sequence), &cells(here, &|_, _| {})));
                (left, sequence) = (left - 1, sequence + 1);
            }
        }
        Self { plan: plan(shape.traffic.requests), baseline, has_baseline: true, age_days: 3, controls, candidate }
    }

    pub(crate) fn evidence(&self) -> Evidence<'_> {
        let baseline = Baseline { release: "v1", age_days: self.age_days, runs: &self.baseline };
        Evidence {
            plan: &self.plan,
            baseline: self.has_baseline.then_some(baseline),
            controls: &self.controls,
            candidate: &self.candidate,
            history: &[],
            paired: false,
        }
    }

    /// Every run of both sides.
    pub(crate) fn all(&mut self) -> impl Iterator<Item = &mut Run> {
        self.baseline.iter_mut().chain(&mut self.controls).chain(&mut self.candidate)
    }
}

pub(crate) fn know(run: &mut Run, condition: Condition, value: &str) {
    run.manifest.conditions.insert(condition, Known { value: value.to_owned(), source: Source::Declared });
}

fn plan(requests: u32) -> Plan {
    let request = |number| PlannedRequest {
        number,
        class: None,
        prompt: PromptRecipe { seed: u64::from(number), words: 100, prefix: Vec::new(), form: Form::Words },
        output_tokens: 6,
        due: None,
        turn: None,
    };
    let cell = |name: &&str| PlannedCell {
        name: (*name).to_owned(),
        phase: Phase::Steady,
        load: Load::Closed { concurrency: 1 },
        requests: (0..requests).map(request).collect(),
        warmup: vec![],
        talk: None,
        max_connections: None,
        timeout: Nanos::from_secs(30),
        stall_timeout: Nanos::from_secs(10),
    };
    Plan {
        workload: "chat".to_owned(),
        seed: 1,
        caches: None,
        cells: CELLS.iter().map(cell).collect(),
        fingerprint: Digest::of(b"plan"),
    }
}

/// One run with this traffic in each cell.
pub(crate) fn run(side: Side, (session, sequence): (&str, u32), cells: &[(&str, Traffic)]) -> Run {
    let release = if side == Side::Candidate { "v2" } else { "v1" };
    let records: Vec<Record> = cells.iter().flat_map(|(name, traffic)| records(name, traffic)).collect();
    let evidence = |(name, traffic): &(&str, Traffic)| CellEvidence {
        attempted: traffic.requests,
        window_end_us: 100_000 * u64::from(traffic.requests),
        ..CellEvidence::planned(name, traffic.requests)
    };
    Run {
        manifest: Manifest {
            format: FORMAT,
            servegate: "0.1.0".to_owned(),
            side,
            release: release.to_owned(),
            session: session.to_owned(),
            sequence,
            started: "2026-01-01T00:00:00Z".to_owned(),
            workload: "chat".to_owned(),
            plan: Digest::of(b"plan"),
            restarted: true,
            time_to_ready_ms: None,
            api: Api::Chat,
            forced_length: true,
            tokenizer: None,
            clock: ClockKind::Http,
            caches: None,
            salt: None,
            trusted_streams: None,
            conditions: BTreeMap::new(),
            definitions: Metric::ALL.iter().map(|m| (m.id().to_owned(), m.definition().to_owned())).collect(),
            cells: cells.iter().map(evidence).collect(),
            complete: true,
            records: Digest::of(format!("{side} {session} {sequence}").as_bytes()),
            record_count: u64::try_from(records.len()).unwrap(),
            texts: None,
        },
        records,
    }
}

fn records(cell: &str, traffic: &Traffic) -> Vec<Record> {
    let record = |request: u32| {
        let due = Nanos::from_millis(100 * u64::from(request));
        let sent = due + Nanos::from_ms(traffic.lag);
        // A spread of 4 % around the median that repeats every five requests, and the drift in the last third.
        let spread = 1.0 + 0.02 * (f64::from(request % 5) - 2.0) / 2.0;
        let factor = if 3 * request >= 2 * traffic.requests { spread * traffic.drift } else { spread };
        let at = |token: u32| due + Nanos::from_ms(factor * (traffic.ttft + f64::from(token) * traffic.tpot));
        let ok = request >= traffic.failed;
        let chunk = |token| Chunk { at: at(token).to_stored_resolution(), tokens: Some(1) };
        let chunks: Vec<Chunk> = if ok { (0..traffic.tokens).map(chunk).collect() } else { vec![] };
        Record {
            cell: cell.to_owned(),
            request,
            class: None,
            turn: None,
            due,
            sent: sent.to_stored_resolution(),
            connect: None,
            tls: None,
            head: chunks.first().map(|chunk| chunk.at),
            first_byte: chunks.first().map(|chunk| chunk.at),
            first_answer: chunks.first().map(|chunk| chunk.at),
            reads: u32::try_from(chunks.len()).unwrap(),
            end: chunks.last().map_or(sent + Nanos::from_millis(1), |chunk| chunk.at),
            chunks,
            prompt_tokens: ok.then_some(100),
            cached_tokens: ok.then_some(0),
            output_tokens: ok.then_some(traffic.tokens),
            reasoning_tokens: None,
            tokens_from: TokenSource::Usage,
            doubt: None,
            text_bytes: if ok { 4 * u64::from(traffic.tokens) } else { 0 },
            text_digest: None,
            finish: ok.then(|| "length".to_owned()),
            outcome: if ok { Outcome::Ok } else { Outcome::HttpError },
            detail: None,
        }
    };
    (0..traffic.requests).map(record).collect()
}
