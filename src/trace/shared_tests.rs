//! The published traces themselves, where they are at hand.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::base::recorded_tests::{shared, shared_folder};
use crate::base::units::Nanos;
use crate::trace::faults::Kind;
use crate::trace::request::{Requests, Traffic};
use crate::trace::shape::{self, Sharing, Ticks};
use crate::trace::{Format, Reading, read, tokens};

/// The requests of a published trace, and how they were read.
fn published(path: &str) -> Option<(Reading, Requests)> {
    let bytes = shared(&format!("data/traces/{path}"))?;
    let reading = read(path, &bytes, None, &tokens::estimate).unwrap();
    let Traffic::Requests(requests) = reading.traffic.clone() else { panic!("{path} holds windows") };
    Some((reading, requests))
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

#[test]
fn every_file_is_read_or_refused_with_a_reason() {
    let Some(folder) = shared_folder("data/traces") else { return };
    let mut paths = Vec::new();
    files(&folder, &mut paths);
    let mut read_as: BTreeMap<Format, usize> = BTreeMap::new();
    for path in &paths {
        let name = path.display().to_string();
        let page = path.extension().is_some_and(|extension| extension == "md" || extension == "yml");
        match read(&name, &fs::read(path).unwrap(), None, &tokens::estimate) {
            Ok(found) => {
                assert!(!page, "{name}: {}", found.why);
                *read_as.entry(found.format).or_default() += 1;
            }
            Err(refused) => {
                // Prompts without answers, lengths of answers or instants.
                assert!(page || name.contains("genai_perf_prompts"), "{refused}");
                assert!(refused.to_string().starts_with(&name) && !refused.hints().is_empty(), "{refused}");
            }
        }
    }
    let expected = [
        (Format::Azure, 1),
        (Format::Mooncake, 1),
        (Format::Servegen, 4),
        (Format::Vidur, 1),
        (Format::Sharegpt, 1),
        (Format::OpenaiBatch, 1),
        (Format::Otel, 6),
    ];
    assert_eq!(read_as, BTreeMap::from(expected));
}

#[test]
fn azure_and_the_copy_that_vidur_keeps_of_it_are_one_trace() {
    let Some((reading, azure)) = published("azure2023/AzureLLMInferenceTrace_conv.csv") else { return };
    assert_eq!(reading.faults.iter().count(), 0);
    assert_eq!((azure.rows.len(), azure.rows[1].at), (19_366, Nanos(4_314_579_000)));
    let Some((_, vidur)) = published("vidur/splitwise_conv.csv") else { return };
    assert_eq!(azure.rows, vidur.rows);
}

#[test]
fn mooncake_comes_in_ticks_of_three_seconds() {
    let Some((reading, mooncake)) = published("mooncake/conversation_trace.jsonl") else { return };
    assert_eq!(reading.faults.iter().count(), 0);
    let ticks = Ticks { instants: 812, repeated: 7_168, largest: 23, step: Nanos::from_secs(3) };
    assert_eq!(shape::ticks(&mooncake), ticks);
    // Counted with a set of what was seen, by another program.
    let sharing = Sharing { blocks: 197_084, different: 128_076, repeated: 69_008 };
    assert_eq!(shape::sharing(&mooncake), sharing);
}

#[test]
fn spans_of_an_agent_form_one_session() {
    let Some((reading, requests)) = published("agentic_otel/code_review_workflow.json") else { return };
    assert_eq!(reading.faults.rows(Kind::CountedLength), 15);
    assert!(requests.rows.iter().all(|row| row.session == Some(0)));
    assert_eq!(requests.rows.len(), 15);
    assert_eq!(requests.rows[1].at, Nanos::from_millis(1_500));
}
