//! What the server counted agrees with what was measured.

use crate::artifact::run::Run;
use crate::artifact::server::TokenBalance;
use crate::artifact::validity::CellValidity;
use crate::base::names::{CacheMode, Side};
use crate::base::words::count;
use crate::compare::evidence::name;
use crate::plan::hit_rate::{BLOCK_TOKENS, HitRate};
use crate::plan::request::PlannedCell;
use crate::spec::slice::Slice;
use crate::verdict::rules::{Fault, Seen, by_cell};

/// The share of prompt tokens that may come from the prefix cache beyond what the plan explains.
const CACHE_TOLERANCE: f64 = 0.05;

/// The server was not restarted between the borders of the cell.
pub(super) fn restarted(_: &Run, validity: &CellValidity) -> Option<Fault> {
    validity.server.is_some_and(|server| server.restarted).then(|| Fault {
        code: "server-restarted",
        seen: "met a restart of the server inside the cell: its process started there, or its counters went backwards"
            .to_owned(),
        fix: "see in the deployment's log why it restarted, and measure again; where several servers answer behind one \
              URL, set `metrics: none` in the target",
    })
}

/// The server did no work for others while it was measured.
pub(super) fn foreign_traffic(_: &Run, validity: &CellValidity) -> Option<Fault> {
    let tokens = validity.tokens.filter(TokenBalance::is_foreign)?;
    Some(Fault {
        code: "foreign-traffic",
        seen: format!(
            "was measured while the server generated {:.0} tokens, of which the requests of servegate explain at most {:.0}",
            tokens.server, tokens.most
        ),
        fix: "keep other traffic away from the deployment while it is measured; if there was none, look whether the page \
              under `metrics` is of this deployment alone",
    })
}

/// What the server's counters tell that does not keep a run from counting: one sentence a kind, side and cell, about
/// the run that shows it most.
pub(super) fn notes(seen: &[Seen<'_>]) -> Vec<String> {
    let mut notes = vec![];
    for (cell, seen) in by_cell(seen) {
        for side in Side::ALL {
            let of_side: Vec<&Seen<'_>> = seen.iter().filter(|seen| seen.side == *side).collect();
            notes.extend(unread(cell, &of_side));
            notes.extend(preempted(cell, &of_side));
            notes.extend(cached(cell, &of_side));
            notes.extend(reused(cell, &of_side));
            notes.extend(partial(cell, &of_side));
            notes.extend(underestimated(cell, &of_side));
        }
    }
    notes
}

/// The run in which `of` is largest, with that value.
fn most<'s, 'a>(seen: &[&'s Seen<'a>], of: impl Fn(&CellValidity) -> Option<f64>) -> Option<(&'s Seen<'a>, f64)> {
    let values = seen.iter().filter_map(|seen| Some((*seen, of(seen.validity.as_ref()?)?)));
    values.max_by(|(_, one), (_, other)| one.total_cmp(other))
}

/// Counters that were there before and could not be read: what rests on them was not looked for.
fn unread(cell: &PlannedCell, seen: &[&Seen<'_>]) -> Option<String> {
    let cause = |run: &Run| {
        let evidence = run.manifest.cells.iter().find(|evidence| evidence.name == cell.name)?;
        Some(evidence.counters_unread.as_ref()?.clone())
    };
    let mut found = seen.iter().filter_map(|seen| Some((seen, cause(seen.run)?)));
    let (first, cause) = found.next()?;
    let more = match found.count() {
        0 => String::new(),
        more => format!(" and in {}", count(more, "other run")),
    };
    Some(format!(
        "counters-unreadable: the server's counters could not be read in {}{more} at {} ({cause}): traffic of others, a \
         restart inside the cell and preemptions were not looked for, and cache hits only where the answers tell them",
        name(first.side, first.run),
        cell.name
    ))
}

fn preempted(cell: &PlannedCell, seen: &[&Seen<'_>]) -> Option<String> {
    let (worst, count) = most(seen, |validity| validity.server?.preemptions)?;
    (count > 0.0).then(|| {
        format!(
            "the server preempted requests {count:.0} times in {} at {}: its key-value cache was too small for the load, and \
             they were computed again",
            name(worst.side, worst.run),
            cell.name
        )
    })
}

/// Where nothing is declared, a hit may be alike on both sides.
fn cached(cell: &PlannedCell, seen: &[&Seen<'_>]) -> Option<String> {
    let undeclared: Vec<&Seen<'_>> = seen.iter().copied().filter(|seen| seen.run.manifest.caches.is_none()).collect();
    let (worst, _) = most(&undeclared, |validity| excess(cell, validity))?;
    let place = format!("in {} at {} ", name(worst.side, worst.run), cell.name);
    Some(format!(
        "{}: the same prompts were sent before; restart the deployment before each run, or declare `caches` in the workload",
        hits(cell, worst.validity.as_ref()?, &place)
    ))
}

/// Where the caches were kept from answering, they did not answer.
pub(super) fn caches_warm(run: &Run, cell: &PlannedCell, validity: &CellValidity) -> Option<Fault> {
    let (although, fix) = match run.manifest.caches? {
        CacheMode::Reset => (
            "although the server had reset its caches",
            "use `caches: salted`; the server keeps a cache that its reset does not empty (llama.cpp without `--cache-ram 0`), \
             or several servers answer under one URL",
        ),
        CacheMode::Salted => (
            "although no run before it sent its prompts",
            "look whether the page under `metrics` is of this deployment alone, and keep other traffic away from it",
        ),
    };
    excess(cell, validity)?;
    Some(Fault { code: "caches-warm", seen: format!("shows that {}, {although}", hits(cell, validity, "")), fix })
}

/// What the cache answered for, in words.
fn hits(cell: &PlannedCell, validity: &CellValidity, place: &str) -> String {
    format!(
        "{:.0} % of the prompt tokens {place}came from the server's prefix cache, where the plan explains {:.0} %",
        100.0 * validity.cache_hit_share.unwrap_or_default(),
        100.0 * explained(cell, validity)
    )
}

/// The share of prompt tokens that came from the cache beyond what the plan explains, where it is too large.
fn excess(cell: &PlannedCell, validity: &CellValidity) -> Option<f64> {
    // Most cells share nothing and hit nothing: their plan need not be asked.
    let hits = validity.cache_hit_share.filter(|hits| *hits > CACHE_TOLERANCE)?;
    let excess = hits - explained(cell, validity);
    (excess > CACHE_TOLERANCE).then_some(excess)
}

/// The largest share of prompt tokens that may be in the cache although no earlier run sent them: what the plan repeats, token
/// by token, and everything that the server puts around a prompt (chat template, system prompt).
fn explained(cell: &PlannedCell, validity: &CellValidity) -> f64 {
    let (repeated, own) = repeated(cell, validity, 1);
    repeated + 1.0 - own
}

/// The share of the server's prompt tokens that the plan repeats, in whole blocks, and the share that the plan's own tokens
/// are of them.
fn repeated(cell: &PlannedCell, validity: &CellValidity, block_tokens: u32) -> (f64, f64) {
    let sum: f64 = cell.requests.iter().map(|request| f64::from(request.prompt.words)).sum();
    let words = sum / cell.requests.iter().map(|_| 1.0).sum::<f64>().max(1.0);
    let tokens = validity.prompt_tokens_mean.unwrap_or(words).max(words).max(1.0);
    let own = words / tokens;
    (own * HitRate::expected(cell, &Slice::default(), block_tokens).share(), own)
}

/// What came from the cache beside what the plan repeats, in a cell that is about it: of the run with the fewest hits.
fn reused(cell: &PlannedCell, seen: &[&Seen<'_>]) -> Option<String> {
    let hits = |seen: &&Seen<'_>| seen.validity.as_ref()?.cache_hit_share;
    let told = seen.iter().copied().filter_map(|seen| Some((seen, hits(&seen)?)));
    let (least, share) = told.min_by(|(_, one), (_, other)| one.total_cmp(other))?;
    let validity = least.validity.as_ref()?;
    let block_tokens = validity.server.and_then(|server| server.block_tokens);
    let (expected, _) = repeated(cell, validity, block_tokens.unwrap_or(BLOCK_TOKENS));
    if expected < CACHE_TOLERANCE || excess(cell, validity).is_some() {
        return None;
    }
    let place = format!("in {} at {}", name(least.side, least.run), cell.name);
    let percent = 100.0 * share;
    let planned =
        format!("the plan repeats {:.0} %, in blocks of {}", 100.0 * expected, block_tokens.unwrap_or(BLOCK_TOKENS));
    Some(if share < expected - CACHE_TOLERANCE {
        format!(
            "cache-hits-missing: only {percent:.0} % of the prompt tokens {place} came from the server's prefix cache, and \
             {planned}: the cache is off, too small to keep them, or was asked before it had them"
        )
    } else {
        format!("{percent:.0} % of the prompt tokens {place} came from the server's prefix cache; {planned}")
    })
}

fn partial(cell: &PlannedCell, seen: &[&Seen<'_>]) -> Option<String> {
    let missing = |validity: &CellValidity| {
        let tokens = validity.tokens.filter(TokenBalance::is_partial)?;
        Some(tokens.ours - tokens.server)
    };
    let (worst, _) = most(seen, missing)?;
    let tokens = worst.validity.as_ref()?.tokens?;
    Some(format!(
        "the server's page counts {:.0} generated tokens in {} at {}, and {:.0} came: it is not the page of all servers that \
         answered; set `metrics` of the target, or `metrics: none`",
        tokens.server,
        name(worst.side, worst.run),
        cell.name,
        tokens.ours
    ))
}

fn underestimated(cell: &PlannedCell, seen: &[&Seen<'_>]) -> Option<String> {
    let excess = |validity: &CellValidity| {
        let tokens = validity.tokens.filter(TokenBalance::is_underestimate)?;
        Some(tokens.server - tokens.ours)
    };
    let (worst, _) = most(seen, excess)?;
    let tokens = worst.validity.as_ref()?.tokens?;
    Some(format!(
        "{:.0} tokens came in {} at {} by their chunks or their text, and the server generated {:.0}: several tokens come in a \
         chunk, some have no text, or others used the server; let it send usage",
        tokens.ours,
        name(worst.side, worst.run),
        cell.name,
        tokens.server
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::server::ServerEvidence;
    use crate::base::names::{Metric, Statistic};
    use crate::base::units::Nanos;
    use crate::compare::synthetic::policy::in_all_cells;
    use crate::compare::synthetic::{self, Shape, Sides, Traffic};
    use crate::plan::request::{Form, Part, PlannedRequest, PromptRecipe};
    use crate::spec::workload::{Load, Phase};
    use crate::verdict::case::Case;
    use crate::verdict::judge::judge;
    use crate::verdict::judgement::Verdict;
    use crate::verdict::rules::look;

    /// Forty requests of 90 words, 30 of them shared, after a warm-up with them; the server counts 100 tokens a prompt.
    fn cell() -> PlannedCell {
        let request = |number: u32| {
            let prefix = vec![Part { seed: 2, words: 30 }];
            let prompt = PromptRecipe { seed: 100 + u64::from(number), words: 90, prefix, form: Form::Words };
            PlannedRequest { number, class: None, prompt, output_tokens: 50, due: None }
        };
        PlannedCell {
            phase: Phase::Steady,
            max_connections: None,
            name: "c1".to_owned(),
            load: Load::Closed { concurrency: 1 },
            requests: (0..40).map(request).collect(),
            warmup: vec![request(40)],
            timeout: Nanos::from_secs(30),
            stall_timeout: Nanos::from_secs(10),
        }
    }

    fn told(server: ServerEvidence) -> (Option<Fault>, Vec<String>) {
        let cell = cell();
        let traffic = Traffic { tokens: 50, ..Traffic::default() };
        let mut run = synthetic::run(Side::Candidate, ("s", 0), &[("c1", traffic)]);
        run.manifest.cells[0].server = Some(server);
        let (validity, fault) = look(&run, &cell.name, Some(&cell));
        let seen = Seen { side: Side::Candidate, run: &run, cell: &cell, validity, fault };
        let all = [&seen];
        let notes = [preempted(&cell, &all), cached(&cell, &all), partial(&cell, &all), underestimated(&cell, &all)];
        (seen.fault.clone(), notes.into_iter().flatten().collect())
    }

    /// What an engine counts that did what was asked, and nothing else.
    fn honest() -> ServerEvidence {
        ServerEvidence {
            generated_tokens: Some(2_000.0),
            preemptions: Some(0.0),
            cache_queries: Some(4_000.0),
            cache_hits: Some(0.0),
            asked_tokens: 2_000,
            others_tokens: 50,
            ..ServerEvidence::default()
        }
    }

    fn generated(factor: f64) -> ServerEvidence {
        ServerEvidence { generated_tokens: honest().generated_tokens.map(|tokens| factor * tokens), ..honest() }
    }

    #[test]
    fn an_honest_server_is_no_news_and_neither_is_a_silent_one() {
        assert_eq!(told(honest()), (None, vec![]));
        assert_eq!(told(ServerEvidence::default()), (None, vec![]));
    }

    #[test]
    fn a_restart_and_the_traffic_of_others_keep_a_run_from_counting() {
        let (fault, _) = told(ServerEvidence { restarted: true, ..ServerEvidence::default() });
        assert_eq!(fault.map(|fault| fault.code), Some("server-restarted"));
        let (fault, notes) = told(generated(1.5));
        assert_eq!((fault.map(|fault| fault.code), notes), (Some("foreign-traffic"), vec![]));
        assert_eq!(told(generated(1.04)), (None, vec![]));
    }

    #[test]
    fn what_does_not_spoil_a_run_is_a_note() {
        let note = |server| {
            let (fault, mut notes) = told(server);
            assert_eq!((fault, notes.len()), (None, 1), "{notes:?}");
            notes.remove(0)
        };
        assert!(note(generated(0.5)).contains("not the page of all servers"));
        assert!(note(ServerEvidence { preemptions: Some(12.0), ..honest() }).contains("preempted requests 12 times"));
        let hit = ServerEvidence { cache_hits: Some(3_600.0), ..honest() };
        assert!(note(hit).contains("90 % of the prompt tokens in candidate run 1 of session s at c1"));
        // 30 words are shared, and 10 tokens are the template's.
        assert_eq!(told(ServerEvidence { cache_hits: Some(1_760.0), ..honest() }).1, [""; 0]);
        assert!(note(ServerEvidence { cache_hits: Some(1_840.0), ..honest() }).contains("the plan explains 40 %"));
    }

    #[test]
    fn hits_stand_beside_what_the_plan_repeats_and_missing_ones_are_said_with_what_they_may_mean() {
        let note = |hits: Option<f64>, block_tokens| {
            let (cell, traffic) = (cell(), Traffic { tokens: 50, ..Traffic::default() });
            let mut run = synthetic::run(Side::Candidate, ("s", 0), &[("c1", traffic)]);
            run.records.iter_mut().for_each(|record| record.cached_tokens = None);
            run.manifest.cells[0].server = Some(ServerEvidence { cache_hits: hits, block_tokens, ..honest() });
            let (validity, fault) = look(&run, &cell.name, Some(&cell));
            reused(&cell, &[&Seen { side: Side::Candidate, run: &run, cell: &cell, validity, fault }])
        };
        // 16 of 30 shared words are a block; of 100 tokens 10 are the template's.
        let plain = note(Some(640.0), None).unwrap();
        assert_eq!(
            plain,
            "16 % of the prompt tokens in candidate run 1 of session s at c1 came from the server's prefix cache; the plan \
             repeats 16 %, in blocks of 16"
        );
        assert!(note(Some(1_200.0), Some(1)).unwrap().ends_with("the plan repeats 30 %, in blocks of 1"));
        let missing = note(Some(900.0), Some(1)).unwrap();
        assert!(
            missing.starts_with("cache-hits-missing: only 22 % of the prompt tokens in candidate run 1"),
            "{missing}"
        );
        assert!(!note(Some(1_040.0), Some(1)).unwrap().contains("missing"));
        assert_eq!(note(Some(1_840.0), None), None, "too many are another note");
        assert_eq!((note(None, None), note(Some(0.0), Some(32))), (None, None), "unknown; no block is repeated");
    }

    #[test]
    fn a_page_that_could_not_be_read_is_one_note_a_side_and_cell_and_names_what_was_not_checked() {
        let mut sides = Sides::new(Shape::default(), |_, _| {});
        for run in &mut sides.candidate[1..] {
            run.manifest.cells[0].counters_unread = Some("it answered 500".to_owned());
        }
        let policy = in_all_cells(&[(Metric::Tpot, Statistic::P50, 0.1)]);
        let found = judge(&[Case { policy: &policy, evidence: sides.evidence() }]).policies.remove(0);
        let notes: Vec<_> = found.notes.iter().filter(|note| note.starts_with("counters-unreadable")).collect();
        assert_eq!((found.verdict, notes.len()), (Verdict::Pass, 1), "{notes:?}");
        for says in ["and in 3 other runs at c1 (it answered 500)", "traffic of others, a restart", "cache hits only"] {
            assert!(notes[0].contains(says), "{}", notes[0]);
        }
    }

    #[test]
    fn a_restart_is_told_in_words_that_hold_for_both_of_its_signs() {
        let (fault, _) = told(ServerEvidence { restarted: true, ..ServerEvidence::default() });
        let seen = fault.unwrap().seen;
        assert!(seen.contains("its process started there, or its counters went backwards"), "{seen}");
    }

    /// What a judgement says where the cache answered for 90 % of the prompt tokens of this side.
    fn judged(caches: Option<CacheMode>, warm: Side) -> (Vec<(Verdict, &'static str)>, Vec<String>) {
        let mut sides = Sides::new(Shape::default(), |_, _| {});
        for run in sides.all() {
            run.manifest.caches = caches;
            let hits = if run.manifest.side == warm { 3_600.0 } else { 0.0 };
            let server =
                ServerEvidence { cache_queries: Some(4_000.0), cache_hits: Some(hits), ..ServerEvidence::default() };
            run.manifest.cells.iter_mut().for_each(|cell| cell.server = Some(server));
        }
        let policy = in_all_cells(&[(Metric::Tpot, Statistic::P50, 0.1)]);
        let found = judge(&[Case { policy: &policy, evidence: sides.evidence() }]).policies.remove(0);
        let mut codes: Vec<_> = found.findings.iter().map(|finding| (finding.verdict, finding.code)).collect();
        codes.dedup();
        (codes, found.findings.into_iter().map(|finding| finding.message).chain(found.notes).collect())
    }

    #[test]
    fn a_cache_that_answers_although_it_was_kept_from_it_is_a_fault_and_else_a_note() {
        let (codes, texts) = judged(None, Side::Candidate);
        assert_eq!(codes, []);
        assert!(texts.iter().any(|note| note.contains("or declare `caches` in the workload")), "{texts:?}");
        for (caches, says) in [
            (CacheMode::Reset, "although the server had reset its caches: use `caches: salted`"),
            (CacheMode::Salted, "although no run before it sent its prompts: look whether"),
        ] {
            let (codes, texts) = judged(Some(caches), Side::Candidate);
            assert_eq!(codes, [(Verdict::Error, "caches-warm")]);
            assert!(
                texts[0].contains("shows that 90 % of the prompt tokens came from") && texts[0].contains(says),
                "{texts:?}"
            );
            assert!(!texts.iter().any(|note| note.contains("or declare `caches`")), "said once: {texts:?}");
        }
        assert_eq!(judged(Some(CacheMode::Reset), Side::Baseline).0, [(Verdict::NotComparable, "caches-warm")]);
        assert_eq!(judged(Some(CacheMode::Reset), Side::Control).0, [(Verdict::Error, "caches-warm")]);
        // What the plan shares is explained.
        let cell = cell();
        let mut run = synthetic::run(Side::Candidate, ("s", 0), &[("c1", Traffic::default())]);
        run.manifest.caches = Some(CacheMode::Reset);
        for (cache_hits, code) in [(1_760.0, None), (1_840.0, Some("caches-warm"))] {
            run.manifest.cells[0].server = Some(ServerEvidence { cache_hits: Some(cache_hits), ..honest() });
            run.manifest.cells[0].server.as_mut().unwrap().generated_tokens = None;
            assert_eq!(look(&run, "c1", Some(&cell)).1.map(|fault| fault.code), code);
            assert_eq!(look(&run, "c1", None).1, None, "without the plan nothing is known");
        }
        // A server without a page of counters says it in its answers.
        run.manifest.cells[0].server = None;
        for (cached, code) in [(44, None), (46, Some("caches-warm"))] {
            run.records.iter_mut().for_each(|record| record.cached_tokens = Some(cached));
            assert_eq!(look(&run, "c1", Some(&cell)).1.map(|fault| fault.code), code, "{cached}");
        }
        run.records.iter_mut().for_each(|record| record.cached_tokens = None);
        assert_eq!(look(&run, "c1", Some(&cell)).1, None, "what nobody tells is unknown");
    }
}
