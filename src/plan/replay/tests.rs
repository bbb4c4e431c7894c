//! Plans from traces: instants, lengths, and which words prompts have in common.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use crate::base::digest::Hasher;
use crate::base::recorded_tests::shared;
use crate::base::units::Nanos;
use crate::plan::replay::{Misfit, Traces, fit};
use crate::plan::request::{Plan, PlannedCell, PlannedRequest};
use crate::plan::{build_with, prompt};
use crate::spec::read_workload;
use crate::spec::workload::Workload;
use crate::trace::request::{Requests, Traffic};
use crate::trace::{normal, shape, tokens};

/// A trace in the normal form: its blocks have eight tokens.
fn trace(rows: &[&str]) -> Requests {
    let header = "{\"servegate_trace\":1,\"source\":\"bailian\",\"block_tokens\":8}\n";
    normal::read("t.jsonl", format!("{header}{}\n", rows.join("\n")).as_bytes()).unwrap()
}

/// A row at this second with so many tokens, and further keys.
fn row(at: u32, prompt: u32, more: &str) -> String {
    let at = u64::from(at) * 1_000_000;
    format!("{{\"at_us\":{at},\"prompt_tokens\":{prompt},\"output_tokens\":{}{more}}}", prompt + 1)
}

fn workload(keys: &str) -> Workload {
    let text = format!("servegate: 1\nkind: workload\nname: w\ncells:\n  - {{name: t, trace: t.jsonl, {keys}}}\n");
    read_workload("w.yaml", &text).unwrap().value
}

fn planned(keys: &str, trace: &Requests) -> Result<Plan, Vec<Misfit>> {
    let (mut workload, traces) = (workload(keys), Traces::from([("t.jsonl".to_owned(), trace.clone())]));
    fit(&mut workload, &traces)?;
    Ok(build_with(&workload, &traces))
}

/// The words of every prompt in order of arrival.
fn words(cell: &PlannedCell) -> Vec<Vec<String>> {
    let text = |request: &PlannedRequest| prompt::text(&request.prompt).split(' ').map(str::to_owned).collect();
    cell.warmup.iter().chain(&cell.requests).map(text).collect()
}

/// How many words two prompts have in common at their beginning.
fn common(one: &[String], other: &[String]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

#[test]
fn requests_come_at_the_instants_of_the_trace_with_its_lengths() {
    let rows: Vec<String> = [(0, 9), (2, 30), (2, 31), (7, 5)].map(|(at, prompt)| row(at, prompt, "")).into();
    let trace = trace(&rows.iter().map(String::as_str).collect::<Vec<_>>());
    let cell = planned("warmup: 1, requests: 3", &trace).unwrap().cells.remove(0);
    let seen = |request: &PlannedRequest| (request.number, request.prompt.words, request.output_tokens, request.due);
    let due = |seconds| Some(Nanos::from_secs(seconds));
    assert_eq!(cell.warmup.iter().map(seen).collect::<Vec<_>>(), [(3, 9, 10, due(0))]);
    let measured = [(0, 30, 31, due(2)), (1, 31, 32, due(2)), (2, 5, 6, due(7))];
    assert_eq!(cell.requests.iter().map(seen).collect::<Vec<_>>(), measured);
    assert!(cell.load.is_open());
    // More requests in use leave the others as they were.
    let fewer = planned("warmup: 1, requests: 2", &trace).unwrap().cells.remove(0);
    assert_eq!(fewer.requests, cell.requests[..2].to_vec());
}

#[test]
fn equal_blocks_are_equal_words_and_blocks_that_come_once_are_own_words() {
    let rows = [
        row(0, 40, ",\"blocks\":[0,1,2,3,4]"),
        row(1, 40, ",\"blocks\":[0,1,2,5,6]"),
        row(2, 36, ",\"blocks\":[0,1,2,5,7]"),
        row(3, 20, ",\"blocks\":[0,1,2]"),
        row(4, 30, ",\"blocks\":[8]"),
        row(5, 30, ",\"blocks\":[8]"),
    ];
    let trace = trace(&rows.each_ref().map(String::as_str));
    let cell = planned("warmup: 0, requests: 6", &trace).unwrap().cells.remove(0);
    let words = words(&cell);
    let lengths: Vec<usize> = words.iter().map(Vec::len).collect();
    assert_eq!(lengths, [40, 40, 36, 20, 30, 30]);
    let shared = |one: usize, other: usize| common(&words[one], &words[other]);
    // The third block of the fourth prompt is cut.
    assert_eq!([shared(0, 1), shared(1, 2), shared(0, 3), shared(0, 4), shared(4, 5)], [24, 32, 20, 0, 8]);
    let parts: Vec<usize> = cell.requests.iter().map(|request| request.prompt.prefix.len()).collect();
    assert_eq!(parts, [1, 2, 2, 1, 1, 1], "blocks that only come together are one part");
    let known: Vec<u32> =
        cell.requests.iter().map(|request| request.prompt.prefix.iter().map(|part| part.words).sum()).collect();
    assert_eq!(known, [24, 32, 32, 20, 8, 8]);
}

#[test]
fn a_request_begins_with_the_whole_prompt_of_the_one_that_it_continues() {
    let rows = [
        row(0, 20, ""),
        row(1, 30, ",\"parent\":0"),
        row(2, 44, ",\"parent\":1"),
        row(3, 25, ",\"parent\":0"),
        row(4, 12, ",\"parent\":1"),
        row(5, 30, ",\"parent\":1"),
    ];
    let trace = trace(&rows.each_ref().map(String::as_str));
    for (keys, warmup) in [("warmup: 0, requests: 6", 0), ("warmup: 1, requests: 5", 1)] {
        let cell = planned(keys, &trace).unwrap().cells.remove(0);
        assert_eq!(cell.warmup.len(), warmup);
        let words = words(&cell);
        let shared = |one: usize, other: usize| common(&words[one], &words[other]);
        assert_eq!([shared(0, 1), shared(1, 2), shared(0, 3), shared(1, 3)], [20, 30, 20, 20]);
        // What is no longer than the one before cannot hold it.
        assert_eq!([shared(1, 4), shared(1, 5)], [0, 0]);
    }
    let salted = planned("warmup: 0, requests: 6", &trace).unwrap().salted(7).cells.remove(0);
    let words = words(&salted);
    assert_eq!((common(&words[0], &words[1]), common(&words[1], &words[2])), (20, 30), "also under a salt");
}

#[test]
fn what_a_trace_lacks_is_said_with_the_numbers() {
    let rows = [row(0, 9, ""), row(1, 9, ""), row(2, 1_000_001, "")];
    let all = trace(&rows.each_ref().map(String::as_str));
    let untold = trace(&["{\"at_us\":0,\"prompt_tokens\":5}", "{\"at_us\":1,\"prompt_tokens\":5,\"output_tokens\":1}"]);
    let ended = Requests { arrivals: false, ..all.clone() };
    let blocks = Requests { block_tokens: None, ..trace(&[&row(0, 9, ",\"blocks\":[4]")]) };
    let long = "the trace has 3 requests, and the cell needs 4: 1 of warm-up and 3 that are measured";
    let lengths = "the trace does not tell the length of the answer of 1 of 2 requests";
    for (keys, trace, code, message) in [
        ("warmup: 1, requests: 3", &all, "trace-too-short", long),
        ("warmup: 0, requests: 3", &all, "out-of-range", "a request of the trace has 1000002 tokens"),
        ("warmup: 0, requests: 2", &ended, "trace-without-instants", "does not say when"),
        ("warmup: 0, requests: 2", &untold, "missing-key", lengths),
        ("warmup: 0, requests: 2, output_tokens: 9", &all, "conflicting-keys", "the trace tells the length of every"),
        ("warmup: 0, requests: 1", &blocks, "missing-key", "how many tokens a block has"),
    ] {
        let misfit = planned(keys, trace).unwrap_err().remove(0);
        assert!(misfit.code == code && misfit.message.contains(message), "{keys}: {misfit:?}");
        assert_eq!(misfit.file.path, "t.jsonl");
    }
    let told = planned("warmup: 0, requests: 2, output_tokens: 9", &untold).unwrap();
    assert_eq!(told.cells[0].requests.iter().map(|one| one.output_tokens).collect::<Vec<_>>(), [9, 1]);
}

#[test]
fn checks_know_the_answers_of_the_trace() {
    let rows = [
        "{\"at_us\":0,\"prompt_tokens\":5,\"output_tokens\":1}",
        "{\"at_us\":1,\"prompt_tokens\":5,\"output_tokens\":7}",
    ];
    let mut workload = workload("warmup: 0, requests: 2");
    fit(&mut workload, &Traces::from([("t.jsonl".to_owned(), trace(&rows))])).unwrap();
    let replay = workload.cells[0].trace.as_ref().unwrap();
    assert_eq!((replay.long_answers, replay.least_gaps), (1, 6));
}

#[test]
fn a_session_without_end_is_refused_before_it_fills_the_memory() {
    let rows: Vec<String> = (0..3_000_u32)
        .map(|at| row(at, at + 1, &if at == 0 { String::new() } else { format!(",\"parent\":{}", at - 1) }))
        .collect();
    let trace = trace(&rows.iter().map(String::as_str).collect::<Vec<_>>());
    let misfit = planned("warmup: 0, requests: 3000", &trace).unwrap_err().remove(0);
    assert_eq!(misfit.message, "the prompts of the trace share more than 4000000 parts");
    planned("warmup: 0, requests: 2000", &trace).unwrap();
}

#[test]
fn a_cache_of_prompts_hits_what_the_trace_says() {
    let Some(bytes) = shared("data/traces/mooncake/conversation_trace.jsonl") else { return };
    let reading = crate::trace::read("t.jsonl", &bytes, None, &tokens::estimate).unwrap();
    let Traffic::Requests(mut trace) = reading.traffic else { panic!() };
    trace.rows.truncate(400);
    let expected = shape::sharing(&trace);
    let cell = planned("warmup: 100, requests: 300", &trace).unwrap().cells.remove(0);
    // A cache of blocks that forgets nothing, as engines have it: a block counts with all that is in front of it.
    let (mut cached, mut hits, mut blocks) = (BTreeSet::new(), 0, 0);
    for words in words(&cell) {
        let mut hasher = Hasher::default();
        for block in words.chunks(512) {
            hasher.field(block.join(" ").as_bytes());
            blocks += 1;
            hits += u64::from(!cached.insert(hasher.clone().finish()));
        }
    }
    assert_eq!((blocks, hits), (expected.blocks, expected.repeated));
    assert!(hits > 1_000, "{hits}");
}

/// Blocks as sources name them: each stands for all that is in front of it, too.
fn chained(prompts: &[Vec<u8>]) -> Vec<Vec<u64>> {
    let mut known: Vec<&[u8]> = Vec::new();
    let mut number = |beginning| {
        let at = known.iter().position(|one| *one == beginning).unwrap_or_else(|| {
            known.push(beginning);
            known.len() - 1
        });
        u64::try_from(at).unwrap()
    };
    prompts.iter().map(|prompt| (1..=prompt.len()).map(|end| number(&prompt[..end])).collect()).collect()
}

proptest! {
    #[test]
    fn prompts_share_exactly_what_the_trace_shares(
        prompts in prop::collection::vec(prop::collection::vec(0_u8..3, 1..7), 1..12),
        cut in 0_u32..8,
    ) {
        let blocks = chained(&prompts);
        let rows: Vec<String> = blocks
            .iter()
            .map(|blocks| row(0, 8 * u32::try_from(blocks.len()).unwrap() - cut, &format!(",\"blocks\":{blocks:?}")))
            .collect();
        let trace = trace(&rows.iter().map(String::as_str).collect::<Vec<_>>());
        let keys = format!("warmup: 0, requests: {}", rows.len());
        let cell = planned(&keys, &trace).unwrap().cells.remove(0);
        let words = words(&cell);
        for (one, first) in blocks.iter().enumerate() {
            for (other, second) in blocks.iter().enumerate().skip(one + 1) {
                let same = first.iter().zip(second).take_while(|(one, other)| one == other).count();
                let most = words[one].len().min(words[other].len());
                let (shared, found) = ((8 * same).min(most), common(&words[one], &words[other]));
                // Other words may begin alike by chance: their seeds differ within seven.
                prop_assert!((shared..shared + 7).contains(&found), "{first:?} {second:?}: {found}");
            }
        }
        // Every part was really in two places.
        let seeds: Vec<u64> = cell.requests.iter().flat_map(|one| &one.prompt.prefix).map(|part| part.seed).collect();
        let different: BTreeSet<u64> = seeds.iter().copied().collect();
        prop_assert!(different.iter().all(|seed| seeds.iter().filter(|other| *other == seed).count() > 1));
    }

    #[test]
    fn equal_numbers_are_equal_words_wherever_they_stand(
        prompts in prop::collection::vec(prop::collection::vec(0_u64..6, 1..7), 1..12),
    ) {
        let rows: Vec<String> = prompts
            .iter()
            .map(|blocks| row(0, 8 * u32::try_from(blocks.len()).unwrap(), &format!(",\"blocks\":{blocks:?}")))
            .collect();
        let trace = trace(&rows.iter().map(String::as_str).collect::<Vec<_>>());
        let cell = planned(&format!("warmup: 0, requests: {}", rows.len()), &trace).unwrap().cells.remove(0);
        let mut met: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        for (blocks, words) in prompts.iter().zip(words(&cell)) {
            for (number, words) in blocks.iter().zip(words.chunks(8)) {
                let known = met.entry(*number).or_insert_with(|| words.to_vec());
                prop_assert_eq!(&known[..], words, "block {}", number);
            }
        }
    }
}
