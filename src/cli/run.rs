//! `servegate run`: measure, compare with the active baseline, judge, report, exit.

use std::path::PathBuf;

use crate::cli::baseline::warn_of_unapproved;
use crate::cli::candidate::{CandidateSession, Stage};
use crate::cli::declared;
use crate::cli::deployment::Live;
use crate::cli::error::{CliError, Exit};
use crate::cli::files;
use crate::cli::folders;
use crate::cli::gate::{ExitPolicyArg, Outputs, decide, forget};
use crate::cli::gathered::Gathered;
use crate::cli::lock::check_folders;
use crate::cli::session::{check_names, new_name};
use crate::cli::signals::Interrupt;
use crate::cli::steps::{self, Folders, accept, approve, missing_baseline, rebase};
use crate::cli::suite::Suite;
use crate::cli::target::TargetArgs;
use crate::cli::terminal::Terminal;
use crate::cli::trust;
use crate::store::baseline::Baselines;
use crate::verdict::judgement::{Judgement, Verdict};

/// Measure a target, compare it with the active baseline, and decide
///
/// Example: servegate run --policy gate-policies/chat.yaml --target staging --release v1.5.0-rc1
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Policies to judge by; those that share a workload share its measurement
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    policy: Vec<PathBuf>,

    #[command(flatten)]
    target: TargetArgs,

    /// Release (or change) under judgement
    #[arg(long, default_value = steps::UNNAMED)]
    release: String,

    /// Candidate runs, instead of what the policies ask for
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: Option<u32>,

    /// Runs of the baseline image in between, instead of what the policies ask for
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100))]
    controls: Option<u32>,

    /// Name of the session [default: made from the time]
    #[arg(long)]
    session: Option<String>,

    /// Continue this session, which was interrupted or killed: only its missing runs are measured
    #[arg(long, value_name = "SESSION", conflicts_with = "session")]
    resume: Option<String>,

    /// Folder of the baselines [default: that of servegate.yaml, else baselines]
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,

    /// Folder of the reports [default: that of servegate.yaml, else servegate-out]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Keep what the answers say, in a file beside the records of each run; bundles and baselines do not take it
    #[arg(long)]
    keep_text: bool,

    /// What the verdict does to the exit code
    #[arg(long, value_enum, default_value_t)]
    exit_policy: ExitPolicyArg,
}

/// The gate.
pub(crate) fn run(args: &Args, terminal: &mut Terminal) -> Result<Exit, CliError> {
    let config = args.target.config().inspect_err(|_| forget(args.out.as_deref()))?;
    let session = args.resume.clone().or_else(|| args.session.clone()).unwrap_or_else(new_name);
    check_names(&session, &args.release).inspect_err(|_| forget(args.out.as_deref()))?;
    let store = folders::store(args.store.as_deref(), &config);
    let out = folders::out(args.out.as_deref(), &config);
    check_folders(&out, &store)?;
    let outputs = Outputs { out: &out, exit_policy: args.exit_policy };
    // First of all: whatever goes wrong from here on, an old report cannot be taken for this one.
    let _lock = outputs.prepare()?;
    let target = args.target.target(&config)?;
    let suites = files::suites(&args.policy, terminal)?;
    suites.iter().try_for_each(|suite| trust::admit(&suite.plan))?;
    if args.resume.is_some() {
        something_to_resume(&suites, &outputs, &session)?;
    }
    let baselines = Baselines::at(&store);
    let interrupt = Interrupt::listen()?;

    // All baselines first: a missing one is no reason to load a deployment for half an hour.
    let (mut gathered, mut trouble) = (Vec::new(), None);
    for suite in suites {
        let baseline = Gathered::active(&baselines, &suite.workload.name)?;
        warn_of_unapproved(&baselines, &suite.workload.name, terminal)?;
        match &baseline {
            None => {
                trouble.get_or_insert_with(|| missing_baseline(&suite, &args.target, (&store, &config)));
            }
            Some(baseline) => {
                let differs = declared::check(&suite, &baseline.declared_values(), &target.conditions).err();
                trouble = trouble.or(differs);
            }
        }
        let runs = [outputs.runs(&suite.workload.name, &session)];
        let folders = Folders { runs: &runs, store: &store, config: &config };
        gathered.push((
            suite,
            Gathered {
                candidate: Some(args.release.clone()),
                rebase: Some(rebase(&args.release, &folders)),
                ..baseline.unwrap_or_default()
            },
        ));
    }
    for (suite, gathered) in &mut gathered {
        if trouble.is_some() {
            break;
        }
        let candidate = CandidateSession {
            name: &session,
            release: &args.release,
            runs: args.runs.unwrap_or_else(|| suite.runs()),
            controls: args.controls.unwrap_or_else(|| suite.controls()),
            out: outputs.runs(&suite.workload.name, &session),
            keep_text: args.keep_text,
            resume: args.resume.is_some(),
        };
        trouble = match Live::new(target.clone(), gathered.declared(), interrupt.clone()) {
            Ok(mut live) => {
                let mut stage = Stage { deployment: &mut live, interrupt: &interrupt, terminal };
                candidate.measure(suite, gathered, &mut stage)?
            }
            Err(error) => Some(error),
        };
    }
    let trouble = trouble.map(|error| with_resume(error, &gathered, (&outputs, &session)));
    let (exit, judgement) = conclude(&outputs, &gathered, trouble, &interrupt, terminal)?;
    if let Some(judgement) = judgement {
        for (suite, evidence) in &gathered {
            let runs = [outputs.runs(&suite.workload.name, &session)];
            let folders = Folders { runs: &runs, store: &store, config: &config };
            say_next(&judgement, (suite, evidence), (&args.release, &folders), terminal);
        }
    }
    Ok(exit)
}

/// Says how the session is continued where there is something of it.
fn with_resume(error: CliError, gathered: &[(Suite, Gathered)], (outputs, session): (&Outputs<'_>, &str)) -> CliError {
    if !gathered.iter().any(|(suite, _)| outputs.runs(&suite.workload.name, session).is_dir()) {
        return error;
    }
    error
        .hint(format!("to continue, give the same command with --resume {session}: only the missing runs are measured"))
}

/// Says the command that follows a verdict.
fn say_next(
    judgement: &Judgement,
    (suite, evidence): (&Suite, &Gathered),
    (release, folders): (&str, &Folders<'_>),
    terminal: &mut Terminal,
) {
    let name = &suite.workload.name;
    let of_suite = judgement.policies.iter().filter(|policy| policy.workload == *name);
    match (judgement.verdict, of_suite.map(|policy| policy.verdict).max(), &evidence.rebase) {
        (Verdict::Pass | Verdict::Warn, ..) => terminal.say(&approve(suite, release, folders)),
        // The reports say it too, and wrap it.
        (_, Some(Verdict::Fail), Some(rebase)) => terminal.say(&accept(name, rebase)),
        _ => {}
    }
}

/// Refuses to continue a session of which nothing is there.
fn something_to_resume(suites: &[Suite], outputs: &Outputs<'_>, session: &str) -> Result<(), CliError> {
    let folder = |suite: &Suite| outputs.runs(&suite.workload.name, session);
    if suites.iter().any(|suite| folder(suite).is_dir()) {
        return Ok(());
    }
    let places: Vec<String> = suites.iter().map(|suite| folder(suite).display().to_string()).collect();
    Err(CliError::usage(format!("no session `{session}` can be continued: there is no {}", places.join(" and no ")))
        .hint("`--resume` takes the name of the session's folder; start a new session without it"))
}

/// Judges and reports. An interrupted session is kept and not judged.
pub(crate) fn finish(
    outputs: &Outputs<'_>,
    gathered: &[(Suite, Gathered)],
    trouble: Option<CliError>,
    interrupt: &Interrupt,
    terminal: &mut Terminal,
) -> Result<Exit, CliError> {
    conclude(outputs, gathered, trouble, interrupt, terminal).map(|(exit, _)| exit)
}

/// As [`finish`], with the judgement; none where the measurement came to no end.
fn conclude(
    outputs: &Outputs<'_>,
    gathered: &[(Suite, Gathered)],
    trouble: Option<CliError>,
    interrupt: &Interrupt,
    terminal: &mut Terminal,
) -> Result<(Exit, Option<Judgement>), CliError> {
    match trouble {
        Some(error) if interrupt.exit().is_some() => Err(error),
        trouble => {
            let judgement = decide(gathered, trouble.as_ref());
            let exit = outputs.publish(gathered, &judgement, trouble.as_ref(), terminal)?;
            if let Some(error) = &trouble {
                terminal.error(error);
            }
            Ok((exit, trouble.is_none().then_some(judgement)))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;

    use super::*;
    use crate::base::names::Side;
    use crate::cli::session::{Measured, Session};
    use crate::cli::simulated::Simulated;
    use crate::cli::{Global, parse_and_run};
    use crate::sim::profile::Profile;
    use crate::sim::scenario::Scenario;
    use crate::spec::target::Config;

    const WORKLOAD: &str = "servegate: 1\nkind: workload\nname: tiny\ncells:\n  - {name: c2, concurrency: 2, \
                            requests: 20, warmup: 2, prompt_tokens: 16, output_tokens: 8}\n";
    const POLICY: &str = "servegate: 1\nkind: policy\nname: tiny\nworkload: w.yaml\nruns: 3\ncontrols: 2\n\
                          treatment: [kv_cache_dtype]\nchecks:\n  - {metric: tpot, statistic: p50, at_most: 95%}\n";

    fn servegate(words: &[String]) -> Exit {
        parse_and_run(
            ["servegate", "--quiet"].iter().map(OsString::from).chain(words.iter().map(OsString::from)).collect(),
        )
    }

    /// The gate on the simulated engine in virtual time, and then the command that it prints, as it prints it.
    #[test]
    fn a_gate_that_passed_says_how_its_measurement_becomes_the_baseline() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("w.yaml"), WORKLOAD).unwrap();
        fs::write(path("p.yaml"), POLICY).unwrap();
        let mut terminal = Terminal::new(Global { json: false, quiet: true, verbose: 0 });
        let interrupt = Interrupt::never();
        let suite = files::suites(&[path("p.yaml")], &mut terminal).unwrap().remove(0);
        let scenario = Scenario::find("fp8-fused").unwrap();
        let mut engine = Simulated::new(Profile::h100_8b(), scenario, false, interrupt.clone());

        engine.enter_session("one");
        let session = Session {
            plan: &suite.plan,
            name: "one",
            runs: vec![(Side::Baseline, "v1".to_owned()); 2],
            out: &path("runs"),
            keep_text: false,
            kept: Vec::new(),
        };
        let Measured { trouble, .. } = session.measure(&mut engine, &interrupt, &mut terminal);
        assert!(trouble.is_none());
        let (store, runs) = (path("baselines").display().to_string(), path("runs").display().to_string());
        let first = ["baseline", "refresh", "--store", &store, "--initial", "--release", "v1", "--approved-by", "ada"];
        let first: Vec<String> = first.into_iter().chain(["--runs", &runs]).map(str::to_owned).collect();
        assert_eq!(servegate(&first), Exit::Success);

        let baselines = Baselines::at(path("baselines"));
        let outputs = Outputs { out: &path("servegate-out"), exit_policy: ExitPolicyArg::Strict };
        for (session, release) in [("two", "v2"), ("three", "v3")] {
            engine.enter_session(session);
            let mut evidence = Gathered::active(&baselines, "tiny").unwrap().unwrap();
            let candidate = CandidateSession {
                name: session,
                release,
                runs: suite.runs(),
                controls: suite.controls(),
                out: outputs.runs("tiny", session),
                keep_text: false,
                resume: false,
            };
            let mut stage = Stage { deployment: &mut engine, interrupt: &interrupt, terminal: &mut terminal };
            assert!(candidate.measure(&suite, &mut evidence, &mut stage).unwrap().is_none());
            assert_eq!(decide(&[(suite.clone(), evidence)], None).verdict, Verdict::Pass);
        }

        let runs = [outputs.runs("tiny", "two")];
        let folders = Folders { runs: &runs, store: &path("baselines"), config: &Config::default() };
        let step = approve(&suite, "v2", &folders);
        let (says, command) = step.split_once("\n  servegate ").unwrap();
        assert_eq!(says, "next, when v2 is approved, to make it the baseline of `tiny`:");
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        assert_eq!(servegate(&words), Exit::Success, "{command}");
        let active = baselines.load_active("tiny").unwrap().unwrap();
        assert_eq!((active.release.as_str(), active.approved_by.as_str()), ("v2", "WHO"));
        let runs = active.into_runs();
        assert_eq!(runs.len(), 3, "the controls are judged with it and not stored");
        assert!(runs.iter().all(|run| run.manifest.session == "two" && run.manifest.side == Side::Candidate));
    }
}
