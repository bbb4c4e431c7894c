//! Each rule against a case that breaks it and nothing else.

use crate::artifact::record::{Outcome, Record, TokenSource};
use crate::artifact::run::{ClientEvidence, ClockKind, Run};
use crate::base::digest::Digest;
use crate::base::names::{Api, CacheMode, Condition, Metric, Side, Statistic};
use crate::compare::rules::mismatches;
use crate::compare::synthetic::policy::{check, relative, with};
use crate::compare::synthetic::{Shape, Sides, know};
use crate::spec::policy::Policy;
use crate::wire::transport::StampSource;

fn policy() -> Policy {
    with(vec![check(Metric::Tpot, Statistic::P50, "c1", relative(0.05))])
}

/// The codes of what is wrong after `change`.
fn codes(change: impl Fn(&mut Sides)) -> Vec<&'static str> {
    let mut sides = Sides::new(Shape::default(), |_, _| {});
    change(&mut sides);
    mismatches(&sides.evidence(), &policy()).iter().map(|found| found.code).collect()
}

#[test]
fn equal_sides_are_comparable() {
    assert!(codes(|_| {}).is_empty());
}

#[test]
fn a_baseline_must_exist_and_be_fresh() {
    let without = |controls: bool| {
        codes(move |sides| {
            sides.has_baseline = false;
            sides.baseline.clear();
            if !controls {
                sides.controls.clear();
            }
        })
    };
    assert_eq!(without(false), ["baseline-missing"]);
    assert!(without(true).is_empty(), "controls alone are a baseline");
    assert_eq!(codes(|sides| sides.age_days = 31), ["baseline-expired"]);
}

#[test]
fn runs_are_different_runs_in_their_order() {
    assert_eq!(codes(|sides| sides.candidate[1] = sides.candidate[0].clone()), ["run-duplicate"]);
    let renamed = codes(|sides| {
        sides.candidate[1].manifest.records = sides.candidate[0].manifest.records;
    });
    assert_eq!(renamed, ["run-duplicate"], "the same records under another number");
    let virtual_time = codes(|sides| {
        sides
            .all()
            .for_each(|run| (run.manifest.clock, run.manifest.records) = (ClockKind::Simulated, Digest::of(b"")));
    });
    assert!(virtual_time.is_empty(), "in virtual time equal runs are possible");
    assert_eq!(codes(|sides| sides.candidate.swap(0, 1)), ["runs-out-of-order"]);
    assert_eq!(codes(|sides| sides.candidate[2].manifest.release = "v3".to_owned()), ["releases-mixed"]);
    assert_eq!(codes(|sides| sides.controls[0].manifest.release = "v0".to_owned()), ["releases-mixed"]);
    assert_eq!(codes(|sides| sides.candidate[2].manifest.session = "later".to_owned()), ["sessions-mixed"]);
    let blocks = codes(|sides| {
        for (n, run) in (0..).zip(sides.candidate.iter_mut().chain(&mut sides.controls)) {
            run.manifest.sequence = n;
        }
    });
    assert_eq!(blocks, ["controls-not-interleaved"]);
}

#[test]
fn all_runs_are_of_one_plan_and_one_kind() {
    assert_eq!(codes(|sides| sides.baseline[0].manifest.plan = Digest::of(b"other")), ["plan-differs"]);
    assert_eq!(codes(|sides| sides.candidate[0].manifest.workload = "rag".to_owned()), ["plan-differs"]);
    assert_eq!(codes(|sides| sides.baseline[0].manifest.clock = ClockKind::Simulated), ["clock-differs"]);
    assert_eq!(codes(|sides| sides.baseline[0].manifest.api = Api::Completions), ["api-differs"]);
    assert_eq!(codes(|sides| sides.candidate[0].manifest.forced_length = false), ["forced-length-differs"]);
    assert_eq!(codes(|sides| sides.candidate[0].manifest.format = 9), ["format-newer"]);
    let stamped = |by: [Option<StampSource>; 2]| {
        codes(move |sides| {
            let stamp = |run: &mut Run, stamps: Option<StampSource>| {
                for cell in &mut run.manifest.cells {
                    cell.client = stamps.map(|stamps| ClientEvidence {
                        stamps,
                        unaided_reads: 0,
                        read_lag_p99_us: None,
                        clock_steps: 0,
                        resolve_us: None,
                        host: None,
                    });
                }
            };
            sides.baseline.iter_mut().chain(&mut sides.controls).for_each(|run| stamp(run, by[0]));
            sides.candidate.iter_mut().for_each(|run| stamp(run, by[1]));
        })
    };
    assert_eq!(stamped([Some(StampSource::Kernel), Some(StampSource::Program)]), ["stamps-differ"]);
    assert!(stamped([None, Some(StampSource::Program)]).is_empty(), "unknown is not different");
    let define = |metric: &'static str| {
        codes(move |sides| {
            sides.baseline[0].manifest.definitions.insert(metric.to_owned(), "x/9".to_owned());
        })
    };
    assert_eq!(define("tpot"), ["definition-differs"]);
    assert!(define("goodput").is_empty(), "no check is about it");
}

#[test]
fn caches_were_kept_from_answering_alike() {
    let with = |of_baseline, of_candidate| {
        codes(move |sides| {
            sides.all().for_each(|run| run.manifest.caches = of_baseline);
            sides.candidate[1..].iter_mut().for_each(|run| run.manifest.caches = of_candidate);
        })
    };
    let modes = [None, Some(CacheMode::Reset), Some(CacheMode::Salted)];
    for (one, other) in modes.iter().flat_map(|one| modes.iter().map(move |other| (*one, *other))) {
        let expected: &[&str] = if one == other { &[] } else { &["caches-differ"] };
        assert_eq!(with(one, other), expected, "{one:?} {other:?}");
    }
    let mut sides = Sides::new(Shape::default(), |_, _| {});
    sides.controls[0].manifest.caches = Some(CacheMode::Salted);
    let found = mismatches(&sides.evidence(), &policy());
    assert_eq!(found.len(), 1);
    assert!(found[0].message.contains("left as they were for baseline run"), "{}", found[0].message);
    assert!(found[0].message.contains("busted by salted prompts for control run"), "{}", found[0].message);
}

#[test]
fn conditions_agree_within_and_between_the_sides() {
    let set = |condition, from: &'static str, to: &'static str| {
        codes(move |sides| {
            sides.all().for_each(|run| know(run, condition, from));
            sides.candidate.iter_mut().for_each(|run| know(run, condition, to));
        })
    };
    assert_eq!(set(Condition::Hardware, "h100", "h200"), ["condition-differs"]);
    assert!(set(Condition::EngineVersion, "1", "2").is_empty(), "for people to read");
    let mixed = codes(|sides| {
        sides.all().for_each(|run| know(run, Condition::Driver, "1"));
        know(&mut sides.controls[0], Condition::Driver, "2");
    });
    assert_eq!(mixed, ["conditions-vary"]);
}

#[test]
fn the_engine_got_the_same_work() {
    let prompts = |tokens| {
        codes(move |sides| {
            for record in sides.candidate.iter_mut().flat_map(|run| &mut run.records).filter(|r| r.cell == "c8") {
                record.prompt_tokens = Some(tokens);
            }
        })
    };
    assert_eq!(prompts(102), ["prompts-differ"]);
    assert!(prompts(101).is_empty());
    let cached = |tokens| {
        codes(move |sides| {
            sides.candidate.iter_mut().flat_map(|run| &mut run.records).for_each(|r| r.cached_tokens = Some(tokens));
        })
    };
    assert_eq!(cached(10), ["cache-hits-differ"; 2]);
    assert!(cached(2).is_empty());
    // Which requests fail does not change what the others were asked.
    let failures = codes(|sides| {
        for run in sides.all() {
            run.records.iter_mut().filter(|r| r.request % 2 == 0).for_each(|r| r.prompt_tokens = Some(500));
        }
        for run in &mut sides.candidate {
            run.records.iter_mut().filter(|r| r.request % 2 == 0).for_each(|r| {
                (r.prompt_tokens, r.outcome) = (None, Outcome::HttpError);
            });
        }
    });
    assert!(failures.is_empty());
}

#[test]
fn tokens_are_counted_alike() {
    let change = |change: fn(&mut Record)| {
        codes(move |sides| {
            sides.candidate.iter_mut().flat_map(|run| &mut run.records).filter(|r| r.cell == "c8").for_each(change);
        })
    };
    assert_eq!(change(|r| r.tokens_from = TokenSource::Chunks), ["token-source-differs"]);
    assert_eq!(change(|r| r.tokens_from = TokenSource::Tokenizer), ["token-source-differs"]);
    assert_eq!(change(|r| r.prompt_tokens = None), ["prompts-unknown"]);
    assert_eq!(change(|r| r.output_tokens = Some(24)), ["token-counts-differ"], "four tokens a chunk, by word alone");
    let coarser = change(|r| (r.output_tokens, r.text_bytes) = (Some(24), 96));
    assert!(coarser.is_empty(), "four tokens a chunk, and four times the text: speculative decoding");
    assert!(change(|r| r.text_bytes = 96).is_empty(), "longer words are no tokens");
    // Tool calls are no text: nothing shows that a chunk holds more.
    let silent = |tokens| {
        codes(move |sides| {
            sides.all().flat_map(|run| &mut run.records).for_each(|record| record.text_bytes = 0);
            let records = sides.candidate.iter_mut().flat_map(|run| &mut run.records);
            records.filter(|record| record.cell == "c8").for_each(|record| record.output_tokens = Some(tokens));
        })
    };
    assert!(silent(6).is_empty());
    assert_eq!(silent(24), ["token-counts-differ"]);
}

#[test]
fn chunks_that_are_taken_for_tokens_hold_as_much_text() {
    let estimated = |text: u64| {
        codes(move |sides| {
            sides.all().flat_map(|run| &mut run.records).for_each(|record| record.tokens_from = TokenSource::Chunks);
            let records = sides.candidate.iter_mut().flat_map(|run| &mut run.records);
            records.filter(|record| record.cell == "c8").for_each(|record| record.text_bytes = text);
        })
    };
    assert!(estimated(24).is_empty() && estimated(27).is_empty(), "other answers have other words");
    assert_eq!(estimated(12), ["token-counts-differ"], "halves of tokens");
    assert_eq!(estimated(48), ["token-counts-differ"], "two tokens a chunk");
}

#[test]
fn the_same_share_of_the_answers_defines_what_is_checked() {
    let in_one_chunk = |every: u32| {
        codes(move |sides| {
            let records = sides.candidate.iter_mut().flat_map(|run| &mut run.records);
            let some = records.filter(|record| record.cell == "c1" && record.request % every == 0);
            some.for_each(|record| record.chunks.truncate(1));
        })
    };
    assert_eq!(in_one_chunk(2)[0], "values-missing");
    assert!(!in_one_chunk(40).contains(&"values-missing"), "one of forty");
}

#[test]
fn what_a_tokenizer_counts_is_counted_by_one_tokenizer() {
    use TokenSource::{Chunks, Tokenizer, Usage};
    let [old, new] = [b"old", b"new"].map(|file| Some(Digest::of(file)));
    let counted = |baseline: TokenSource, candidate: TokenSource, files: [Option<Digest>; 2]| {
        codes(move |sides| {
            for run in sides.all() {
                let of_candidate = run.manifest.side == Side::Candidate;
                run.manifest.tokenizer = files[usize::from(of_candidate)];
                let source = if of_candidate { candidate } else { baseline };
                run.records.iter_mut().for_each(|record| record.tokens_from = source);
            }
        })
    };
    assert!(counted(Tokenizer, Tokenizer, [old, old]).is_empty());
    assert_eq!(counted(Tokenizer, Tokenizer, [old, new]), ["tokenizer-differs"]);
    assert!(counted(Usage, Usage, [old, new]).is_empty(), "nothing was counted by either");
    assert_eq!(counted(Chunks, Tokenizer, [None, new]), ["token-source-differs"; 2], "one a cell");
    assert_eq!(counted(Tokenizer, Tokenizer, [old, None]), ["tokenizer-differs"]);
}

#[test]
fn the_whole_plan_was_followed() {
    assert_eq!(codes(|sides| sides.candidate[0].manifest.cells[1].planned = 39), ["plan-cut"]);
}
