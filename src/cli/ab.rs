//! `servegate ab`: two live deployments, measured in turns under one plan, and judged pair by pair.

use std::path::PathBuf;

use crate::artifact::conditions::Conditions;
use crate::base::names::Side;
use crate::cli::apart;
use crate::cli::candidate::{Stage, carry_out};
use crate::cli::declared;
use crate::cli::deployment::{Boot, Deployment, Live, Speaks};
use crate::cli::error::{CliError, Exit};
use crate::cli::files;
use crate::cli::folders;
use crate::cli::gate::{ExitPolicyArg, Outputs, forget};
use crate::cli::gathered::Gathered;
use crate::cli::run::finish;
use crate::cli::session::{Session, check_names, new_name};
use crate::cli::signals::Interrupt;
use crate::cli::suite::Suite;
use crate::cli::terminal::Terminal;
use crate::cli::trust;
use crate::probe::caches::Reset;
use crate::spec::target::Target;
use crate::store::files::checked_name;

/// Measure two deployments in turns (A B, B A, ...), compare them pair by pair, and decide
///
/// A is the reference and needs no stored baseline: it is measured in the same session.
///
/// Example: servegate ab --policy gate-policies/chat.yaml --baseline-target production --target staging
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Policies to judge by; those that share a workload share its measurement
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    policy: Vec<PathBuf>,

    /// A, the reference: a target of servegate.yaml
    #[arg(long, value_name = "NAME")]
    baseline_target: String,

    /// B, under judgement: a target of servegate.yaml
    #[arg(long, value_name = "NAME")]
    target: String,

    /// Release that A serves [default: the name of its target]
    #[arg(long, value_name = "RELEASE")]
    baseline_release: Option<String>,

    /// Release (or change) that B serves [default: the name of its target]
    #[arg(long)]
    release: Option<String>,

    /// Pairs of runs, instead of the candidate runs that the policies ask for; fewer than 3 decide nothing
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pairs: Option<u32>,

    /// Name of the session [default: made from the time]
    #[arg(long)]
    session: Option<String>,

    /// Config file [default: servegate.yaml, where there is one]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Folder of the reports [default: that of servegate.yaml, else servegate-out]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// What the verdict does to the exit code
    #[arg(long, value_enum, default_value_t)]
    exit_policy: ExitPolicyArg,
}

/// The order of the runs: the pairs one after another, and who comes first in a pair alternates. With three pairs:
/// A B, B A, A B. A steady drift of the machine meets both sides alike.
fn in_turns(pairs: u32) -> Vec<Side> {
    let pair = |at: u32| {
        if at.is_multiple_of(2) { [Side::Control, Side::Candidate] } else { [Side::Candidate, Side::Control] }
    };
    (0..pairs).flat_map(pair).collect()
}

/// Two deployments that are measured in turns; the reference answers for the controls.
struct Duet {
    reference: Live,
    candidate: Live,
    /// The side that was booted last.
    booted: Side,
}

impl Duet {
    fn new(reference: Target, candidate: Target, interrupt: &Interrupt) -> Result<Self, CliError> {
        let live = |target| Live::new(target, Conditions::new(), interrupt.clone());
        Ok(Self { reference: live(reference)?, candidate: live(candidate)?, booted: Side::Control })
    }

    fn live(&mut self, side: Side) -> &mut Live {
        if side == Side::Candidate { &mut self.candidate } else { &mut self.reference }
    }

    /// A first request to each deployment that is to be up already: nobody wants to learn after the first run of A
    /// that B is down. One that servegate restarts is seen when it was restarted.
    fn look(&mut self, args: &Args) -> Result<(), CliError> {
        for (side, name) in [(Side::Control, &args.baseline_target), (Side::Candidate, &args.target)] {
            let live = self.live(side);
            if !live.can_restart() {
                live.boot(side, "", 0)
                    .map_err(|error| error.hint(format!("that is the target `{name}`")).hint("nothing was measured"))?;
            }
        }
        Ok(())
    }
}

impl Deployment for Duet {
    fn speaks(&self) -> &Speaks {
        if self.booted == Side::Candidate { self.candidate.speaks() } else { self.reference.speaks() }
    }

    fn can_restart(&self) -> bool {
        self.reference.can_restart() && self.candidate.can_restart()
    }

    fn boot(&mut self, side: Side, release: &str, sequence: u32) -> Result<Boot, CliError> {
        self.booted = side;
        self.live(side).boot(side, release, sequence)
    }

    fn reset_caches(&mut self) -> Result<Reset, CliError> {
        self.live(self.booted).reset_caches()
    }
}

/// How the suites are measured.
struct Turns<'a> {
    /// Name of the session.
    session: &'a str,
    /// Releases of A and of B.
    releases: [&'a str; 2],
    /// Pairs, where the command names them.
    pairs: Option<u32>,
}

impl Turns<'_> {
    /// Measures suite after suite. What kept it from being complete is returned.
    fn measure(
        &self,
        suites: &mut [(Suite, Gathered)],
        outputs: &Outputs<'_>,
        stage: &mut Stage<'_>,
    ) -> Result<Option<CliError>, CliError> {
        let [reference, candidate] = self.releases;
        let release = |side| if side == Side::Candidate { candidate } else { reference }.to_owned();
        for (suite, gathered) in suites {
            let order = in_turns(self.pairs.unwrap_or_else(|| suite.runs()));
            let runs = order.into_iter().map(|side| (side, release(side))).collect();
            let out = outputs.runs(&suite.workload.name, self.session);
            let session =
                Session { plan: &suite.plan, name: self.session, runs, out: &out, keep_text: false, kept: Vec::new() };
            if let Some(trouble) = carry_out(&session, gathered, stage)? {
                return Ok(Some(trouble));
            }
        }
        Ok(None)
    }
}

/// Nothing yet of a comparison pair by pair.
fn evidence(release: &str) -> Gathered {
    Gathered { candidate: Some(release.to_owned()), paired: true, ..Gathered::default() }
}

/// Measures in turns and judges.
pub(crate) fn run(args: &Args, terminal: &mut Terminal) -> Result<Exit, CliError> {
    let forget = |_: &CliError| forget(args.out.as_deref());
    let config = files::config(args.config.as_deref()).inspect_err(forget)?;
    let session = args.session.clone().unwrap_or_else(new_name);
    let release = args.release.as_ref().unwrap_or(&args.target);
    let baseline = args.baseline_release.as_ref().unwrap_or(&args.baseline_target);
    check_names(&session, release).inspect_err(forget)?;
    let named = checked_name("--baseline-release", baseline).map_err(|error| CliError::usage(error.to_string()));
    named.inspect_err(forget)?;
    let out = folders::out(args.out.as_deref(), &config);
    let outputs = Outputs { out: &out, exit_policy: args.exit_policy };
    let _lock = outputs.prepare()?;
    let (reference, candidate) =
        (files::target(&config, &args.baseline_target)?, files::target(&config, &args.target)?);
    apart::check([&args.baseline_target, &args.target], [&reference, &candidate], terminal)?;
    let suites = files::suites(&args.policy, terminal)?;
    let conditions = [reference.conditions.clone(), candidate.conditions.clone()];
    suites.iter().try_for_each(|suite| trust::admit(&suite.plan))?;
    let interrupt = Interrupt::listen()?;

    let mut gathered: Vec<_> = suites.into_iter().map(|suite| (suite, evidence(release))).collect();
    let [of_a, of_b] = &conditions;
    let duet = gathered.iter().try_for_each(|(suite, _)| declared::check(suite, of_a, of_b));
    let duet = duet.and_then(|()| Duet::new(reference, candidate, &interrupt));
    let duet = duet.and_then(|mut duet| duet.look(args).map(|()| duet));
    let trouble = match duet {
        Ok(mut duet) => {
            let mut stage = Stage { deployment: &mut duet, interrupt: &interrupt, terminal };
            let turns = Turns { session: &session, releases: [baseline, release], pairs: args.pairs };
            turns.measure(&mut gathered, &outputs, &mut stage)?
        }
        Err(error) => Some(error),
    };
    finish(&outputs, &gathered, trouble, &interrupt, terminal)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::artifact::run::Run;
    use crate::cli::gate::decide;
    use crate::cli::simulated::Simulated;
    use crate::cli::{Global, parse_and_run};
    use crate::sim::profile::Profile;
    use crate::sim::scenario::Scenario;
    use crate::store::bundle::Part;
    use crate::verdict::judgement::Verdict;

    #[test]
    fn who_comes_first_alternates() {
        let order = |pairs| -> String {
            let letter = |side| if side == Side::Control { 'A' } else { 'B' };
            in_turns(pairs).into_iter().map(letter).collect()
        };
        assert_eq!(order(1), "AB");
        assert_eq!(order(5), "ABBAABBAAB");
    }

    /// The shipped chat policy on the simulated engine in virtual time; B has the scenario's change. Gives the exit
    /// and the verdicts of the checks by id.
    fn chat(scenario: &str) -> (Exit, Vec<(String, Verdict)>) {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let mut terminal = Terminal::new(Global { json: false, quiet: true, verbose: 0 });
        let interrupt = Interrupt::never();
        let policy = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("gate-policies/chat.yaml");
        let suites = files::suites(&[policy], &mut terminal).unwrap();
        let mut suites: Vec<_> = suites.into_iter().map(|suite| (suite, evidence("b"))).collect();
        let mut engine =
            Simulated::new(Profile::h100_8b(), Scenario::find(scenario).unwrap(), false, interrupt.clone());
        engine.enter_session("ab");
        let outputs = Outputs { out: &out, exit_policy: ExitPolicyArg::Strict };
        let lock = outputs.prepare().unwrap();
        let mut stage = Stage { deployment: &mut engine, interrupt: &interrupt, terminal: &mut terminal };
        let turns = Turns { session: "ab", releases: ["a", "b"], pairs: None };
        assert!(turns.measure(&mut suites, &outputs, &mut stage).unwrap().is_none());
        let numbers = |runs: &[Run]| runs.iter().map(|run| run.manifest.sequence).collect::<Vec<u32>>();
        assert_eq!(numbers(suites[0].1.part(Part::Control)), [0, 3, 4, 7, 8]);
        assert_eq!(numbers(suites[0].1.part(Part::Candidate)), [1, 2, 5, 6, 9]);

        let judgement = decide(&suites, None);
        let exit = finish(&outputs, &suites, None, &interrupt, &mut terminal).unwrap();
        drop(lock);
        let bundle = out.join("bundle");
        let verify = ["servegate".into(), "--quiet".into(), "verify".into(), bundle.into_os_string()];
        assert_eq!(parse_and_run(verify.into_iter().collect::<Vec<OsString>>()), Exit::Success);
        let policy = &judgement.policies[0];
        assert_eq!(policy.design.baseline.as_deref(), Some("a"));
        assert!(policy.notes.iter().any(|note| note.starts_with("compared pair by pair")), "{:?}", policy.notes);
        (exit, policy.checks.iter().map(|check| (check.id.clone(), check.verdict)).collect())
    }

    #[test]
    fn an_unfused_cache_fails_chat_against_its_own_kind_without_a_stored_baseline() {
        let (exit, checks) = chat("fp8-unfused");
        assert_eq!(exit, Exit::Verdict(Verdict::Fail));
        assert!(checks.contains(&("tpot.p50@c1".to_owned(), Verdict::Fail)), "{checks:?}");
    }

    #[test]
    fn a_harmless_change_is_not_failed() {
        let (exit, checks) = chat("fp8-fused");
        assert!(matches!(exit, Exit::Success | Exit::Verdict(Verdict::Inconclusive)), "{exit:?} {checks:?}");
        assert!(checks.contains(&("tpot.p50@c1".to_owned(), Verdict::Pass)), "{checks:?}");
    }
}
