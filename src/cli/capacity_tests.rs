//! The search against the simulated engine in virtual time. What is found is compared with the load at which half of the
//! probes of a dense sweep miss: the same boot, other seeds, and no search.

use clap::{Args as _, FromArgMatches as _};

use crate::cli::Global;
use crate::cli::capacity::{Args, Wanted, conclude, search};
use crate::cli::capacity_report::{Outcome, Report};
use crate::cli::error::{CliError, Exit};
use crate::cli::probing::{Answer, Probing};
use crate::cli::signals::Interrupt;
use crate::cli::simulated::Simulated;
use crate::cli::terminal::Terminal;
use crate::sim::profile::Profile;
use crate::sim::scenario::Scenario;
use crate::spec::read_workload;
use crate::spec::workload::Workload;
use crate::verdict::judgement::Verdict;

const WORKLOAD: &str = "servegate: 1
kind: workload
name: w
cells:
  - &peak {name: peak, rate: 8/s, requests: 100, prompt_tokens: {uniform: {min: 400, max: 600}}, output_tokens: {uniform: {min: 100, max: 160}}}
  - {name: c8, concurrency: 8, requests: 100, prompt_tokens: {uniform: {min: 400, max: 600}}, output_tokens: {uniform: {min: 100, max: 160}}}
  - {name: ramp, rate: 8/s, arrivals: {ramp: {to: 9/s, over: 9s}}, requests: 100, prompt_tokens: 9, output_tokens: 9}
";

fn workload() -> Workload {
    read_workload("w.yaml", &WORKLOAD.replace("&peak ", "")).unwrap().value
}

/// The arguments of a command line, split at bars.
fn args(words: &str) -> Args {
    let line = ["capacity", "--workload", "w.yaml", "--target", "t"].into_iter().chain(words.split('|'));
    let command = Args::augment_args(clap::Command::new("capacity"));
    Args::from_arg_matches(&command.try_get_matches_from(line).unwrap()).unwrap()
}

fn terminal() -> Terminal {
    Terminal::new(Global { json: false, quiet: true, verbose: 0 })
}

/// The engine of one boot; all boots of these tests are the same.
fn engine(interrupt: &Interrupt) -> Simulated {
    let scenario = Scenario::find("fp8-fused").unwrap();
    let mut engine = Simulated::new(Profile::h100_8b(), scenario, false, interrupt.clone());
    engine.enter_session("one");
    engine
}

fn found(args: &Args) -> Report {
    let (workload, interrupt) = (workload(), Interrupt::never());
    let wanted = Wanted::of(args, &workload).unwrap();
    let mut engine = engine(&interrupt);
    search(wanted.asked(args, &workload, "s"), wanted.range, &mut engine, &interrupt, &mut terminal()).unwrap()
}

fn exit(words: &str) -> (Result<Exit, CliError>, Report) {
    let args = args(words);
    let report = found(&args);
    (conclude(&args, &report, &mut terminal()), report)
}

/// The smallest of some loads at which at least half of so many probes miss.
fn swept(words: &str, loads: &[f64], probes: usize) -> f64 {
    let args = args(&format!("{words}|--seed|99"));
    let (workload, interrupt, mut terminal) = (workload(), Interrupt::never(), terminal());
    let wanted = Wanted::of(&args, &workload).unwrap();
    let mut engine = engine(&interrupt);
    let asked = wanted.asked(&args, &workload, "sweep");
    let mut probing = Probing::start(asked, &mut engine, &interrupt, &mut terminal).unwrap();
    let mut misses = |load: f64| {
        let answers = (0..probes).map(|_| probing.at(load, &mut terminal).unwrap().answer).collect::<Vec<Answer>>();
        2 * answers.iter().filter(|answer| **answer == Answer::Missed).count() >= probes
    };
    // The first probes learn how long a request takes.
    assert!(!misses(loads[0]));
    loads.iter().copied().find(|load| misses(*load)).unwrap()
}

/// Loads from one to another, each so many percent above the one before.
fn steps(from: f64, to: f64, percent: f64) -> Vec<f64> {
    std::iter::successors(Some(from), |load| Some(load * (1.0 + percent / 100.0)))
        .take_while(|load| *load < to)
        .collect()
}

/// Searches with other seeds, of which at least so many give an interval that holds one of the borders, and as many a narrow one.
fn holds(words: &str, border: [f64; 2], seeds: u32, least: usize) {
    let reports: Vec<Report> = (1..=seeds).map(|seed| found(&args(&format!("{words}|--seed|{seed}")))).collect();
    let shown: Vec<_> = reports.iter().map(|one| (one.lower, one.capacity, one.upper, one.probes.len())).collect();
    assert!(reports.iter().all(|one| one.outcome == Outcome::Found && one.probes.len() <= 16), "{shown:?}");
    let within = |one: &&Report| one.lower.unwrap() <= border[1] && one.upper.unwrap() >= border[0];
    assert!(reports.iter().filter(within).count() >= least, "{border:?} {shown:?}");
    let narrower = |width: f64| reports.iter().filter(|one| one.upper.unwrap() / one.lower.unwrap() < width).count();
    assert!(narrower(1.5) >= least && narrower(2.0) == reports.len(), "{shown:?}");
}

#[test]
fn the_rate_of_a_latency_objective_is_that_of_a_dense_sweep() {
    let words = "--cell|peak|--slo|ttft p90 <= 500ms";
    let border = swept(words, &steps(46.0, 75.0, 2.0), 9);
    // The border lies between two steps.
    holds(words, [border / 1.02, border], 8, 7);
}

#[test]
fn the_rate_of_an_objective_on_pace_is_where_queues_begin_to_grow() {
    // Decoding never takes 50 ms a token: the batch is full before, and what does not fit waits.
    let words = "--cell|peak|--slo|tpot p90 <= 50ms";
    let border = swept(words, &steps(46.0, 75.0, 2.0), 9);
    holds(words, [border / 1.02, border], 5, 4);
    assert!(found(&args(words)).binding.is_empty(), "no objective is what binds");
}

#[test]
fn the_concurrency_of_an_objective_is_that_of_a_dense_sweep() {
    let words = "--cell|c8|--slo|tpot p90 <= 12ms";
    let border = swept(words, &(40..70).map(f64::from).collect::<Vec<_>>(), 5);
    holds(words, [border - 1.0, border], 5, 5);
    let report = found(&args(words));
    assert_eq!(report.binding, ["tpot p90 <= 12ms"]);
    assert!(report.text().contains(" at once, and with 90 % from "), "{}", report.text());
}

#[test]
fn the_same_search_gives_the_same_bytes() {
    let args = args("--cell|c8|--slo|tpot p90 <= 12ms|--probes|6");
    let bytes = || {
        let mut report = serde_json::to_value(found(&args)).unwrap();
        report["started"] = "now".into();
        report
    };
    assert_eq!(bytes(), bytes());
}

#[test]
fn a_capacity_in_the_range_is_success_and_a_bound_is_undecided() {
    let (exit_of_found, report) = exit("--cell|c8|--slo|tpot p90 <= 12ms");
    assert_eq!((exit_of_found.unwrap(), report.outcome), (Exit::Success, Outcome::Found));
    let (above, report) = exit("--cell|peak|--slo|ttft p90 <= 500ms|--to|20/s");
    assert_eq!((above.unwrap(), report.outcome), (Exit::Verdict(Verdict::Inconclusive), Outcome::AtLeast));
    assert_eq!((report.lower, report.capacity, report.upper), (Some(20.0), None, None));
    assert!(report.text().contains("at least 20/s, the largest load of the range"), "{}", report.text());
    let (below, report) = exit("--cell|peak|--slo|ttft p90 <= 1ms|--slo|error_rate <= 5%");
    assert_eq!((below.unwrap(), report.outcome), (Exit::Verdict(Verdict::Inconclusive), Outcome::AtMost));
    assert_eq!((report.binding.as_slice(), report.upper), (&["ttft p90 <= 1ms".to_owned()][..], Some(0.5)));
    let text = report.text();
    assert!(
        report.lower.is_none() && text.contains("the smallest that was tried, and a smaller load would not"),
        "{text}"
    );
    assert!(report.probes.iter().all(|probe| probe.load > 0.2), "an idle target is not asked for even less: {text}");
}

#[test]
fn what_was_found_before_trouble_is_part_of_the_result() {
    let args = args("--cell|c8|--slo|tpot p90 <= 12ms|--probes|3");
    let mut report = found(&args);
    report.trouble = Some(CliError::interrupted(Exit::Interrupted, "interrupted"));
    let error = conclude(&args, &report, &mut terminal()).unwrap_err();
    assert_eq!((error.exit(), error.message()), (Exit::Interrupted, "interrupted"));
    assert_eq!(error.hints(), ["3 probes before it are part of the result"]);
}

#[test]
fn a_command_line_that_cannot_be_searched_is_refused() {
    let workload = workload();
    for (words, message, hint) in [
        ("--slo|ttft p90 <= 1s", "`w` has several cells", "--cell is one of peak, c8, ramp"),
        ("--cell|c9|--slo|ttft p90 <= 1s", "`w` has no cell `c9`", "--cell is one of peak"),
        (
            "--cell|peak|--slo|ttft p99 <= 1s|--requests|200",
            "200 are too few for `ttft p99 <= 1s`, which needs 1000",
            "",
        ),
        ("--cell|peak|--by|concurrency|--slo|ttft p90 <= 1s", "`peak` has no load of this kind", "`--from 1`"),
        ("--cell|ramp|--slo|ttft p90 <= 1s", "`ramp` has no load of this kind", "--from 0.5/s"),
        ("--cell|peak|--slo|ttft p90 <= 1s|--from|9", "--from: `9` has no unit", "`9/s`"),
        ("--cell|c8|--slo|ttft p90 <= 1s|--to|9/s", "--to: `9/s` is no number of requests at once", "--by rate"),
        ("--cell|peak|--slo|ttft p90 <= 1s|--from|9/s|--to|9/s", "--from 9/s is not less than --to 9/s", ""),
        ("--cell|c8|--slo|ttft p90 <= 1s|--to|5000", "5000 at once is out of range", "from 1 at once to 4096"),
    ] {
        let error = Wanted::of(&args(words), &workload).err().unwrap();
        assert_eq!(error.exit(), Exit::Usage, "{words}");
        assert!(error.message().contains(message), "{words}: {}", error.message());
        assert!(error.hints().concat().contains(hint), "{words}: {:?}", error.hints());
    }
    let wanted = Wanted::of(&args("--cell|peak|--slo|ttft p99 <= 1s"), &workload).unwrap();
    assert_eq!((wanted.range.from, wanted.range.start, wanted.range.to), (0.125, 8.0, 512.0));
}
