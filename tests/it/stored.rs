//! Stored runs made in virtual time: they cost nothing and are the same on every machine.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use servegate::artifact::conditions::Conditions;
use servegate::artifact::record::Record;
use servegate::artifact::run::{CellEvidence, ClockKind, FORMAT, Manifest, Run};
use servegate::base::digest::Digest;
use servegate::base::names::{Api, Metric, Side};
use servegate::loadgen::codec::Codec;
use servegate::loadgen::pass::{Passed, pass};
use servegate::plan::replay::{Traces, fit};
use servegate::plan::request::{Plan, PlannedCell};
use servegate::sim::Deployment;
use servegate::sim::fault::Share;
use servegate::sim::noise::Noise;
use servegate::sim::transport::SimTransport;
use servegate::store::runs::{RunWriter, read_run};
use servegate::trace::normal;
use servegate::wire::dialect::{self, Template};
use servegate::{plan, spec};

use crate::support::{MODEL, Scene, deployment};

/// Chat completions of the simulated engine's model, each answer as long as it is asked for.
pub(crate) fn chat_codec() -> Codec {
    let mut extra = serde_json::Map::new();
    extra.insert("ignore_eos".to_owned(), true.into());
    let dialect = dialect::of(Api::Chat);
    let template = Template::new(&dialect, MODEL, &extra);
    Codec { dialect, template, run: "r".to_owned(), api_key: None, tokenizer: None }
}

/// Makes the runs in a folder the first baseline of release `v1`. On a busy machine a load generator is late, and such
/// runs never become a baseline: what a test needs of them is that they are there, so their lag is taken out, and what
/// the host had to say.
pub(crate) fn first_baseline(scene: &Scene, folder: &str) {
    for entry in fs::read_dir(scene.path(folder)).unwrap() {
        let path = entry.unwrap().path();
        let Run { mut manifest, records } = read_run(&path).unwrap();
        manifest.cells.iter_mut().for_each(|cell| cell.client = None);
        fs::remove_dir_all(&path).unwrap();
        let mut writer = RunWriter::create(&path, &manifest).unwrap();
        let punctual = records.into_iter().map(|record| Record { sent: record.due, ..record });
        punctual.into_iter().try_for_each(|record| writer.record(&record)).unwrap();
        writer.finish(manifest).unwrap();
    }
    scene.line(&format!("baseline refresh --initial --release v1 --approved-by ada --runs {folder}")).exits(0);
}

/// A session to simulate.
pub(crate) struct Session<'a> {
    pub(crate) name: &'a str,
    pub(crate) release: &'a str,
    pub(crate) side: Side,
    /// Time of a token, milliseconds.
    pub(crate) step_ms: f64,
}

impl Session<'_> {
    /// Three runs of `w.yaml` in `runs/<release>`, as `servegate measure` would have left them.
    pub(crate) fn simulate(&self, scene: &Scene) {
        self.simulate_with(scene, &[]);
    }

    /// The same, with faults in some of the answers.
    pub(crate) fn simulate_with(&self, scene: &Scene, faults: &[Share]) {
        let mut engine = deployment(self.step_ms);
        engine.faults.extend_from_slice(faults);
        self.simulate_on(scene, &engine);
    }

    /// The same, on an engine of the test's own.
    pub(crate) fn simulate_on(&self, scene: &Scene, engine: &Deployment) {
        let plan = planned(scene);
        for sequence in 0..3 {
            self.run(&plan, sequence, (scene, engine));
        }
    }

    fn run(&self, plan: &Plan, sequence: u32, (scene, engine): (&Scene, &Deployment)) {
        let mut engine = engine.clone();
        let session = u64::from(self.name.bytes().map(u32::from).sum::<u32>());
        engine.noise = Noise::seeded(session, session * 100 + u64::from(sequence));
        let cells: Vec<&PlannedCell> = plan.cells.iter().collect();
        let manifest = self.manifest(plan, sequence);
        let folder = format!("runs/{}/{}-{sequence:02}-{}", self.release, self.name, self.side.id());
        let mut writer = RunWriter::create(&scene.path(&folder), &manifest).unwrap();
        let mut transport = SimTransport::new(&engine, Arc::new(AtomicBool::new(false)));
        let mut sink = |record: Record| writer.record(&record);
        let Passed { cells, stop } = pass(&cells, &chat_codec(), &mut transport, &mut sink, &mut |_| {}).unwrap();
        assert_eq!(stop, None);
        writer.finish(Manifest { cells, complete: true, ..manifest }).unwrap();
    }

    fn manifest(&self, plan: &Plan, sequence: u32) -> Manifest {
        let planned =
            |cell: &PlannedCell| CellEvidence::planned(&cell.name, u32::try_from(cell.requests.len()).unwrap());
        Manifest {
            side: self.side,
            release: self.release.to_owned(),
            session: self.name.to_owned(),
            sequence,
            started: format!("2026-01-01T00:00:0{sequence}Z"),
            plan: plan.fingerprint,
            cells: plan.cells.iter().map(planned).collect(),
            ..manifest(&plan.workload)
        }
    }
}

/// The plan of `w.yaml` with the traces beside it.
pub(crate) fn planned(scene: &Scene) -> Plan {
    let mut workload = spec::read_workload("w.yaml", &scene.read("w.yaml")).unwrap().value;
    let named = workload.cells.iter().filter_map(|cell| Some(cell.trace.as_ref()?.file.path.clone()));
    let read = |path: String| (path.clone(), normal::read(&path, scene.read(&path).as_bytes()).unwrap());
    let traces: Traces = named.map(read).collect();
    fit(&mut workload, &traces).unwrap();
    plan::build_with(&workload, &traces)
}

/// A manifest of the simulated engine.
pub(crate) fn manifest(workload: &str) -> Manifest {
    Manifest {
        format: FORMAT,
        servegate: env!("CARGO_PKG_VERSION").to_owned(),
        side: Side::Candidate,
        release: "v1".to_owned(),
        session: "s".to_owned(),
        sequence: 0,
        started: "2026-01-01T00:00:00Z".to_owned(),
        workload: workload.to_owned(),
        plan: Digest::of(b"plan"),
        restarted: true,
        time_to_ready_ms: None,
        api: Api::Chat,
        forced_length: true,
        tokenizer: None,
        clock: ClockKind::Simulated,
        caches: None,
        salt: None,
        trusted_streams: None,
        conditions: Conditions::new(),
        definitions: Metric::ALL.iter().map(|it| (it.id().to_owned(), it.definition().to_owned())).collect(),
        cells: vec![],
        complete: false,
        records: Digest::of(b""),
        record_count: 0,
        texts: None,
    }
}
