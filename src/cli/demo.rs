//! `servegate demo`: the main job on the embedded engine, with the same code as `run`.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::base::names::Side;
use crate::cli::approval::judge;
use crate::cli::candidate::{CandidateSession, Stage};
use crate::cli::error::{CliError, Exit};
use crate::cli::files::{config, suite};
use crate::cli::folders;
use crate::cli::gate::{ExitPolicyArg, Outputs, forget};
use crate::cli::gathered::Gathered;
use crate::cli::run::finish;
use crate::cli::session::{Measured, Session, now};
use crate::cli::signals::Interrupt;
use crate::cli::simulated::Simulated;
use crate::cli::suite::{Source, Suite};
use crate::cli::terminal::Terminal;
use crate::cli::traces::TraceFiles;
use crate::sim::profile::Profile;
use crate::sim::scenario::Scenario;
use crate::store::baseline::Baselines;
use crate::store::baseline::request::{Mode, Refresh};

/// Sessions of the baseline, and runs in each.
const SESSIONS: u32 = 3;
const RUNS_PER_SESSION: u32 = 2;
const BASELINE: &str = "v1-bf16-kv";
/// Name of the candidate's session.
const CANDIDATE: &str = "demo-candidate";

/// The shipped policies with their workloads, as they stand in the repository.
const SHIPPED: [[(&str, &str); 2]; 2] = [
    [
        ("gate-policies/workloads/chat.yaml", include_str!("../../gate-policies/workloads/chat.yaml")),
        ("gate-policies/chat.yaml", include_str!("../../gate-policies/chat.yaml")),
    ],
    [
        (
            "gate-policies/workloads/offline-batch.yaml",
            include_str!("../../gate-policies/workloads/offline-batch.yaml"),
        ),
        ("gate-policies/offline-batch.yaml", include_str!("../../gate-policies/offline-batch.yaml")),
    ],
];

/// See the gate work on the embedded simulated engine: no network, no GPU
///
/// Example: servegate demo
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which change the candidate makes
    #[arg(value_enum, default_value_t)]
    story: Story,

    /// Over HTTP on the loopback, in real time: about 70 minutes instead of seconds
    #[arg(long)]
    real_time: bool,

    /// Folder of the reports [default: that of servegate.yaml, else servegate-out]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// What the verdict does to the exit code
    #[arg(long, value_enum, default_value_t)]
    exit_policy: ExitPolicyArg,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum Story {
    /// An FP8 key-value cache with unfused kernels: worse at small loads, better at large ones
    #[default]
    #[value(alias = "fp8-unfused")]
    Fp8,
    /// The same with fused kernels: harmless, and must pass
    Fp8Fused,
}

impl Story {
    const fn scenario(self) -> &'static str {
        match self {
            Self::Fp8 => "fp8-unfused",
            Self::Fp8Fused => "fp8-fused",
        }
    }
}

/// Tells the story.
pub(crate) fn run(args: &Args, terminal: &mut Terminal) -> Result<Exit, CliError> {
    let scenario = Scenario::find(args.story.scenario())
        .ok_or_else(|| CliError::failed(format!("no scenario `{}`", args.story.scenario())))?;
    let config = config(None).inspect_err(|_| forget(args.out.as_deref()))?;
    let out = folders::out(args.out.as_deref(), &config);
    let outputs = Outputs { out: &out, exit_policy: args.exit_policy };
    let _lock = outputs.prepare()?;
    let temporary = tempfile::tempdir()
        .map_err(|error| CliError::failed(format!("cannot create a temporary folder for the baselines: {error}")))?;
    let store = Baselines::at(temporary.path().join("baselines"));
    let interrupt = Interrupt::listen()?;
    let mut deployment = Simulated::new(Profile::h100_8b(), scenario, args.real_time, interrupt.clone());
    terminal.say(&format!("SIMULATED engine (preset h100-8b); the change under judgement: {}", scenario.mirrors));
    let mut gathered = Vec::new();
    let mut trouble = None;
    for [workload, policy] in SHIPPED {
        let source = |(name, text): (&str, &str)| Source { name: name.to_owned(), text: text.to_owned() };
        let suite = suite(source(workload), TraceFiles::new(), vec![source(policy)])?;
        outputs.remove_runs(&suite.workload.name, CANDIDATE)?;
        for number in 1..=SESSIONS {
            let session = format!("demo-{number}");
            deployment.enter_session(&format!("{}/{session}", suite.workload.name));
            let mut stage = Stage { deployment: &mut deployment, interrupt: &interrupt, terminal };
            baseline(&suite, &store, &session, temporary.path(), &mut stage)?;
        }
        let active = Gathered::active(&store, &suite.workload.name)?.unwrap_or_default();
        let mut evidence = Gathered { candidate: Some(scenario.name.to_owned()), ..active };
        deployment.enter_session(&format!("{}/candidate", suite.workload.name));
        let candidate = CandidateSession {
            name: CANDIDATE,
            release: scenario.name,
            runs: suite.runs(),
            controls: suite.controls(),
            out: outputs.runs(&suite.workload.name, CANDIDATE),
            keep_text: false,
            resume: false,
        };
        let mut stage = Stage { deployment: &mut deployment, interrupt: &interrupt, terminal };
        trouble = candidate.measure(&suite, &mut evidence, &mut stage)?;
        gathered.push((suite, evidence));
        if trouble.is_some() {
            break;
        }
    }
    let exit = finish(&outputs, &gathered, trouble, &interrupt, terminal)?;
    if !terminal.json() {
        terminal.data(format!("\n{PIPELINE}").as_bytes())?;
    }
    Ok(exit)
}

/// What ends the demo: the same with a deployment of one's own.
const PIPELINE: &str = "\
With your deployment as the target `staging` of servegate.yaml, once for each workload, the release that is approved:
  servegate measure --workload gate-policies/workloads/chat.yaml --target staging --release v1 --out runs/chat
  servegate baseline refresh --initial --release v1 --approved-by WHO --runs runs/chat
and in the pipeline, for each change:
  servegate run --policy gate-policies/chat.yaml gate-policies/offline-batch.yaml --target staging --release \"$TAG\"
";

/// Measures one session of the approved release and adds it to the baseline.
fn baseline(
    suite: &Suite,
    store: &Baselines,
    name: &str,
    folder: &Path,
    stage: &mut Stage<'_>,
) -> Result<(), CliError> {
    let workload = &suite.workload.name;
    let session = Session {
        plan: &suite.plan,
        name,
        runs: (0..RUNS_PER_SESSION).map(|_| (Side::Baseline, BASELINE.to_owned())).collect(),
        out: &folder.join("runs").join(workload),
        keep_text: false,
        kept: Vec::new(),
    };
    let Measured { runs, trouble } = session.measure(stage.deployment, stage.interrupt, stage.terminal);
    if let Some(error) = trouble {
        // They lie in a temporary folder that is about to go, and the demo makes the same runs again.
        return Err(error.only_hint("nothing of a demo's baseline is kept; start the demo again"));
    }
    // As on the command line: the first session stands for itself, every further one is judged against it.
    let judged = judge(store, suite, &runs)?;
    let folders: Vec<PathBuf> = runs.into_iter().map(|stored| stored.path).collect();
    let refreshed = store.refresh(&Refresh {
        workload,
        release: BASELINE,
        approved_by: "servegate demo",
        at: &now(),
        mode: if judged.is_none() { Mode::Initial } else { Mode::AddSession },
        runs: &folders,
        verdict: judged.map(|judged| judged.approval),
    });
    refreshed.map(drop).map_err(|error| CliError::failed(error.to_string()))
}
