//! `servegate run`: measure, compare with the active baseline, judge, report, exit.

use std::path::{Path, PathBuf};

use crate::cli::candidate::{CandidateSession, Stage};
use crate::cli::deployment::Live;
use crate::cli::error::{CliError, Exit};
use crate::cli::files;
use crate::cli::gate::{ExitPolicyArg, OUT, Outputs, decide, forget};
use crate::cli::gathered::Gathered;
use crate::cli::lock::check_folders;
use crate::cli::session::{check_names, new_name};
use crate::cli::signals::Interrupt;
use crate::cli::suite::Suite;
use crate::cli::target::TargetArgs;
use crate::cli::terminal::Terminal;
use crate::cli::trust;
use crate::report::escape;
use crate::store::baseline::Baselines;
use crate::store::baseline::verify::Fault;
use crate::verdict::judgement::Verdict;

/// The release under judgement when none is named.
const UNNAMED: &str = "candidate";
/// Folder of the baselines by default.
const BASELINES: &str = "baselines";

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
    #[arg(long, default_value = UNNAMED)]
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

    /// Folder of the baselines [default: baselines]
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,

    /// Folder of the reports [default: servegate-out]
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
    let store = args.store.clone().or(config.baselines.clone().map(PathBuf::from)).unwrap_or_else(|| BASELINES.into());
    let out = args.out.clone().or(config.out.clone().map(PathBuf::from)).unwrap_or_else(|| OUT.into());
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
        if baseline.is_none() {
            trouble.get_or_insert_with(|| missing_baseline(&suite, &args.target, &store));
        }
        gathered.push((suite, Gathered { candidate: Some(args.release.clone()), ..baseline.unwrap_or_default() }));
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
    let (exit, verdict) = conclude(&outputs, &gathered, trouble, &interrupt, terminal)?;
    if matches!(verdict, Some(Verdict::Pass | Verdict::Warn)) {
        for (suite, _) in &gathered {
            let runs = outputs.runs(&suite.workload.name, &session);
            terminal.say(&next_step(suite, &args.release, &runs, &store));
        }
    }
    Ok(exit)
}

/// Says what a history that was cut, or restored without its last lines, leaves behind: the active baseline may be an
/// older one than was approved. A killed refresh leaves the same, so it is no error.
fn warn_of_unapproved(baselines: &Baselines, workload: &str, terminal: &mut Terminal) -> Result<(), CliError> {
    let faults = baselines.unapproved(workload).map_err(|error| CliError::failed(error.to_string()))?;
    for Fault { path, what } in faults {
        terminal.warn(&format!("warning: {}: {}", path.display(), escape::terminal(&what)));
    }
    Ok(())
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

/// What to do with a measurement that passed once its release is approved.
fn next_step(suite: &Suite, release: &str, runs: &Path, store: &Path) -> String {
    let name = &suite.workload.name;
    if release == UNNAMED {
        return format!(
            "note: to make a measurement of `{name}` the next baseline after approval, name its release: servegate run \
             --release TAG"
        );
    }
    let mut refresh = words(&["servegate", "baseline", "refresh"]);
    refresh.extend(store_words(store));
    refresh.extend(words(&["--release", release, "--approved-by", "WHO", "--runs"]));
    refresh.extend([runs.display().to_string(), "--policy".to_owned()]);
    refresh.extend(suite.policies.iter().map(|loaded| loaded.source.name.clone()));
    format!("next, when {release} is approved, to make it the baseline of `{name}`:\n  {}", command(&refresh))
}

/// A word as a POSIX shell reads it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '=' | ':' | '@' | '+' | ',');
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

fn missing_baseline(suite: &Suite, target: &TargetArgs, store: &Path) -> CliError {
    let name = &suite.workload.name;
    let mut measure = words(&["servegate", "measure", "--workload", &suite.source.name]);
    measure.extend(target.words());
    measure.extend(words(&["--release", "TAG", "--out", "runs"]));
    let mut refresh = words(&["servegate", "baseline", "refresh", "--initial"]);
    refresh.extend(store_words(store));
    refresh.extend(words(&["--release", "TAG", "--approved-by", "WHO", "--runs", "runs"]));
    CliError::not_comparable(format!("there is no baseline of the workload `{name}`, so nothing was measured"))
        .hint(format!("measure an approved release: {}", command(&measure)))
        .hint(format!("and make it the first baseline: {}", command(&refresh)))
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The option that names the folder of the baselines, where it is not the usual one.
fn store_words(store: &Path) -> Vec<String> {
    if store == Path::new(BASELINES) { vec![] } else { vec!["--store".to_owned(), store.display().to_string()] }
}

/// A command as one types it.
fn command(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
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

/// As [`finish`], with the verdict; none where the measurement came to no end.
fn conclude(
    outputs: &Outputs<'_>,
    gathered: &[(Suite, Gathered)],
    trouble: Option<CliError>,
    interrupt: &Interrupt,
    terminal: &mut Terminal,
) -> Result<(Exit, Option<Verdict>), CliError> {
    match trouble {
        Some(error) if interrupt.exit().is_some() => Err(error),
        trouble => {
            let judgement = decide(gathered, trouble.as_ref());
            let exit = outputs.publish(gathered, &judgement, trouble.as_ref(), terminal)?;
            if let Some(error) = &trouble {
                terminal.error(error);
            }
            let verdict = trouble.is_none().then_some(judgement.verdict);
            Ok((exit, verdict))
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

        let step = next_step(&suite, "v2", &outputs.runs("tiny", "two"), &path("baselines"));
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

    #[test]
    fn the_command_can_be_pasted_into_a_shell() {
        for (word, shown) in
            [("servegate-out/runs/a", "servegate-out/runs/a"), ("a b", "'a b'"), ("it's", r"'it'\''s'"), ("", "''")]
        {
            assert_eq!(quoted(word), shown);
        }
    }
}
