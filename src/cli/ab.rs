//! `servegate ab`: two live deployments, measured in turns under one plan, and judged pair by pair.

use std::path::PathBuf;

use crate::artifact::conditions::Conditions;
use crate::base::names::Side;
use crate::cli::candidate::{CandidateSession, Stage};
use crate::cli::deployment::{Boot, Deployment, Live, Speaks};
use crate::cli::error::{CliError, Exit};
use crate::cli::files;
use crate::cli::gate::{ExitPolicyArg, Gathered, OUT, Outputs};
use crate::cli::run::finish;
use crate::cli::session::{check_names, new_name};
use crate::cli::signals::Interrupt;
use crate::cli::terminal::Terminal;
use crate::cli::trust;
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

    /// Folder of the reports [default: servegate-out]
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
                live.boot(side, "", 0).map_err(|error| {
                    error.hint(format!("that is the target `{name}`")).hint("nothing was measured")
                })?;
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
}

/// Refuses two names of one deployment that runs all the time: it would be compared with itself and pass. One name
/// twice says that this is wanted.
fn check_two(args: &Args, reference: &Target, candidate: &Target) -> Result<(), CliError> {
    let asked = |target: &Target| (target.url.clone(), target.api, target.model.clone(), target.extra_body.clone());
    let one = asked(reference) == asked(candidate) && (reference.restart.is_none() || candidate.restart.is_none());
    if one && args.baseline_target != args.target {
        let names = format!("the targets `{}` and `{}`", args.baseline_target, args.target);
        let error = CliError::usage(format!("{names} have one URL and model, and no restart command tells them apart"));
        return Err(error
            .hint("give each its own URL, or a `restart` command that starts what is to be measured")
            .hint("to compare a deployment with itself on purpose, name one target twice"));
    }
    Ok(())
}

/// Measures in turns and judges.
pub(crate) fn run(args: &Args, terminal: &mut Terminal) -> Result<Exit, CliError> {
    let config = files::config(args.config.as_deref())?;
    let session = args.session.clone().unwrap_or_else(new_name);
    let release = args.release.as_ref().unwrap_or(&args.target);
    let baseline = args.baseline_release.as_ref().unwrap_or(&args.baseline_target);
    check_names(&session, release)?;
    checked_name("--baseline-release", baseline).map_err(|error| CliError::usage(error.to_string()))?;
    let out = args.out.clone().or(config.out.clone().map(PathBuf::from)).unwrap_or_else(|| OUT.into());
    let outputs = Outputs { out: &out, exit_policy: args.exit_policy };
    let _lock = outputs.prepare()?;
    let (reference, candidate) = (files::target(&config, &args.baseline_target)?, files::target(&config, &args.target)?);
    check_two(args, &reference, &candidate)?;
    let suites = files::suites(&args.policy, terminal)?;
    suites.iter().try_for_each(|suite| trust::admit(&suite.plan))?;
    let interrupt = Interrupt::listen()?;

    let evidence = || Gathered { candidate: Some(release.clone()), ..Gathered::default() };
    let mut gathered: Vec<_> = suites.into_iter().map(|suite| (suite, evidence())).collect();
    let duet = Duet::new(reference, candidate, &interrupt).and_then(|mut duet| duet.look(args).map(|()| duet));
    let trouble = match duet {
        Ok(mut duet) => {
            let mut stage = Stage { deployment: &mut duet, interrupt: &interrupt, terminal };
            let mut trouble = None;
            for (suite, gathered) in &mut gathered {
                let pairs = args.pairs.unwrap_or_else(|| suite.runs());
                let out = outputs.runs(&suite.workload.name, &session);
                let candidate = CandidateSession { name: &session, release, runs: pairs, controls: pairs, out };
                trouble = candidate.measure_in(in_turns(pairs), baseline, suite, gathered, &mut stage)?;
                if trouble.is_some() {
                    break;
                }
            }
            trouble
        }
        Err(error) => Some(error),
    };
    finish(&outputs, &gathered, trouble, &interrupt, terminal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_first_alternates() {
        let order = |pairs| -> String {
            let letter = |side| if side == Side::Control { 'A' } else { 'B' };
            in_turns(pairs).into_iter().map(letter).collect()
        };
        assert_eq!(order(1), "AB");
        assert_eq!(order(5), "ABBAABBAAB");
    }
}
