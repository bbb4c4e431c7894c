//! The life of a baseline: what is allowed, what a kill leaves, what a stranger's hand changes.

use std::fs;
#[cfg(unix)]
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::{TempDir, tempdir};

use crate::artifact::codec::manifest::tests::manifest_of;
use crate::artifact::codec::samples::streamed;
use crate::artifact::conditions::{Known, Source};
use crate::artifact::record::Record;
use crate::artifact::run::Manifest;
use crate::base::digest::Digest;
use crate::base::names::{Condition, Metric, Statistic};
use crate::base::units::Nanos;
use crate::store::baseline::history::{Event, EventKind};
use crate::store::baseline::refusal::Refusal;
use crate::store::baseline::request::{Approval, Change, Mode, Refresh, Refreshed};
use crate::store::baseline::{BaselineError, Baselines, lock};
use crate::store::files::{FileError, write_in_order};
use crate::store::runs::{RunError, RunWriter};
use crate::verdict::judgement::Verdict;

/// Makes a record wrong.
type Wrong = fn(&mut Record);

const AT: &str = "2026-02-01T12:00:00Z";

struct World {
    folder: TempDir,
    baselines: Baselines,
}

impl World {
    fn new() -> Self {
        let folder = tempdir().unwrap();
        let baselines = Baselines::at(folder.path().join("baselines"));
        Self { folder, baselines }
    }

    /// Two runs of a session, `ttft` ms to the first token.
    fn session(&self, release: &str, session: &str, ttft: u64) -> Vec<PathBuf> {
        (0..2).map(|sequence| self.run(release, (session, sequence), ttft + u64::from(sequence), |_| {})).collect()
    }

    fn run(&self, release: &str, (session, sequence): (&str, u32), ttft: u64, change: fn(&mut Manifest)) -> PathBuf {
        let records: Vec<_> = (0..30).map(|n| streamed(n, u64::from(n) * 10, ttft, 10, 5)).collect();
        let mut manifest =
            Manifest { release: release.to_owned(), session: session.to_owned(), sequence, ..manifest_of(&records) };
        change(&mut manifest);
        self.write(&manifest, &records)
    }

    /// A run whose records are all wrong in one way, or which lacks some.
    fn faulty(&self, release: &str, session: &str, change: fn(&mut Record), missing: u32) -> PathBuf {
        let mut records: Vec<_> = (0..30).map(|n| streamed(n, u64::from(n) * 10, 50, 10, 5)).collect();
        records.iter_mut().for_each(change);
        let mut manifest =
            Manifest { release: release.to_owned(), session: session.to_owned(), ..manifest_of(&records) };
        manifest.cells[0].planned += missing;
        self.write(&manifest, &records)
    }

    fn write(&self, manifest: &Manifest, records: &[Record]) -> PathBuf {
        let Manifest { release, session, sequence, .. } = manifest;
        let path = (0..).map(|n| self.folder.path().join(format!("runs/{release}-{session}-{sequence}-{n}")));
        let path = path.into_iter().find(|path| !path.exists()).unwrap();
        let mut writer = RunWriter::create(&path, manifest).unwrap();
        records.iter().try_for_each(|record| writer.record(record)).unwrap();
        writer.finish(manifest.clone()).unwrap().path
    }

    fn refresh(
        &self,
        release: &str,
        mode: Mode,
        verdict: Option<Verdict>,
        runs: &[PathBuf],
    ) -> Result<Refreshed, BaselineError> {
        self.baselines.refresh(&refresh(release, mode, verdict, runs))
    }

    fn change<'a>(release: &'a str, reason: &'a str) -> Change<'a> {
        Change { workload: "chat", release, by: "sre", at: AT, reason }
    }

    fn active(&self) -> Option<(String, usize)> {
        let active = self.baselines.load_active("chat").unwrap()?;
        Some((active.release.clone(), active.into_runs().len()))
    }
}

fn refresh<'a>(release: &'a str, mode: Mode, verdict: Option<Verdict>, runs: &'a [PathBuf]) -> Refresh<'a> {
    let verdict = verdict.map(|verdict| Approval { verdict, judgement: Digest::of(b"verdict.json") });
    Refresh { workload: "chat", release, approved_by: "sre", at: AT, mode, runs, verdict }
}

fn refusal(result: Result<Refreshed, BaselineError>) -> Refusal {
    match result {
        Err(BaselineError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_life_of_a_baseline() {
    let world = World::new();
    assert_eq!(world.active(), None);
    world.refresh("v1", Mode::Initial, None, &world.session("v1", "s1", 50)).unwrap();
    let grown =
        world.refresh("v1", Mode::AddSession, Some(Verdict::Inconclusive), &world.session("v1", "s2", 51)).unwrap();
    assert_eq!((grown.sessions, grown.runs), (2, 4));
    assert_eq!(world.active(), Some(("v1".to_owned(), 4)));
    world.refresh("v2", Mode::Next, Some(Verdict::Pass), &world.session("v2", "s3", 52)).unwrap();
    world.refresh("v3", Mode::Rebase("new driver".to_owned()), None, &world.session("v3", "s4", 90)).unwrap();
    assert_eq!(world.active(), Some(("v3".to_owned(), 2)));
    world.baselines.rollback(&World::change("v1", "v3 was withdrawn")).unwrap();
    assert_eq!(world.active(), Some(("v1".to_owned(), 4)));

    let history = world.baselines.history("chat").unwrap();
    let kinds: Vec<_> = history.iter().map(|event| event.event).collect();
    let expected =
        [EventKind::Initial, EventKind::AddSession, EventKind::Refresh, EventKind::Rebase, EventKind::Rollback];
    assert_eq!(kinds, expected);
    assert_eq!(history[3].reason.as_deref(), Some("new driver"));
    assert_eq!(history[4].digest, history[1].digest);

    let listed = world.baselines.list().unwrap();
    let shown: Vec<_> = listed.iter().map(|one| (one.release.as_str(), one.active, one.anchor, one.runs)).collect();
    assert_eq!(shown, [("v1", true, true, 4), ("v2", false, false, 2), ("v3", false, false, 2)]);
    let earlier: Vec<_> =
        world.baselines.load_earlier("chat", 12).unwrap().into_iter().map(|one| one.release).collect();
    assert_eq!(earlier, ["v2", "v3"]);
    assert_eq!(world.baselines.load_earlier("chat", 1).unwrap()[0].release, "v3");
    assert_eq!(world.baselines.verify(None).unwrap(), []);
    let (digest, manifest) = world.baselines.show("chat", None).unwrap();
    assert_eq!((digest, manifest.previous), (grown.digest, Some(history[0].digest)));
    let active = world.baselines.load_active("chat").unwrap().unwrap();
    assert!(world.baselines.run_folders(&active).unwrap().iter().all(|path| path.exists()));
}

#[test]
fn a_baseline_shows_its_noise() {
    let world = World::new();
    world.refresh("v1", Mode::Initial, None, &world.session("v1", "s1", 100)).unwrap();
    world.refresh("v1", Mode::AddSession, Some(Verdict::Pass), &world.session("v1", "s2", 110)).unwrap();
    let (_, manifest) = world.baselines.show("chat", Some("v1")).unwrap();
    let ttft = manifest.noise.iter().find(|one| (one.metric, one.statistic) == (Metric::Ttft, Statistic::P50)).unwrap();
    // Runs of 100, 101 and 110, 111 ms: their logarithms lie 0.00995 and 0.00905 apart, sessions about 0.095.
    assert_eq!(ttft.median, Some(105.5));
    assert_eq!((ttft.run_sd, ttft.run_df), (Some(0.00673), 1.0));
    assert!((ttft.session_sd - 0.0667).abs() < 1e-3 && !ttft.session_assumed, "{ttft:?}");
    assert!(manifest.noise.iter().all(|one| one.metric != Metric::Goodput && one.metric != Metric::ErrorRate));
}

#[test]
fn the_anchor_is_the_first_release_until_it_is_moved() {
    let world = World::new();
    let anchor = || -> Vec<String> {
        let listed = world.baselines.list().unwrap().into_iter();
        listed.filter(|one| one.anchor).map(|one| one.release).collect()
    };
    assert!(anchor().is_empty());
    world.refresh("v1", Mode::Initial, None, &world.session("v1", "s1", 50)).unwrap();
    world.refresh("v1", Mode::AddSession, Some(Verdict::Pass), &world.session("v1", "s2", 51)).unwrap();
    world.refresh("v2", Mode::Next, Some(Verdict::Warn), &world.session("v2", "s3", 52)).unwrap();
    assert_eq!(anchor(), ["v1"]);
    world.baselines.set_anchor(&World::change("v2", "yearly")).unwrap();
    assert_eq!(anchor(), ["v2"]);
    assert_eq!(world.active().unwrap().0, "v2");
    let again = world.baselines.set_anchor(&World::change("v2", "yearly")).unwrap_err();
    assert_eq!(again.to_string(), "release `v2` is the anchor already");
}

#[test]
fn what_may_not_become_a_baseline_is_refused() {
    let world = World::new();
    let v1 = world.session("v1", "s1", 50);
    let next = |verdict| world.refresh("v2", Mode::Next, verdict, &world.session("v2", "s2", 50));
    assert_eq!(refusal(next(Some(Verdict::Pass))), Refusal::NoActive);
    assert_eq!(refusal(world.refresh("v1", Mode::Initial, None, &[])), Refusal::NoRuns);
    world.refresh("v1", Mode::Initial, None, &v1).unwrap();

    let before = world.baselines.history("chat").unwrap();
    assert_eq!(refusal(world.refresh("v1", Mode::Initial, None, &v1)), Refusal::NotInitial { active: "v1".to_owned() });
    assert_eq!(refusal(next(None)), Refusal::NotJudged);
    for verdict in
        [Verdict::Fail, Verdict::Inconclusive, Verdict::NotComparable, Verdict::Error, Verdict::NotApplicable]
    {
        assert!(matches!(refusal(next(Some(verdict))), Refusal::Verdict { .. }), "{verdict}");
    }
    assert_eq!(world.baselines.history("chat").unwrap(), before);
    let message = refusal(next(Some(Verdict::Fail))).to_string();
    assert!(message.starts_with("the measurement's verdict against the active baseline is fail (sha256:"), "{message}");
    assert!(message.ends_with("; fix the release, or accept the regression with `--rebase REASON`"), "{message}");
}

#[test]
fn only_a_new_session_of_the_active_release_is_added_and_a_rebase_needs_a_reason() {
    let world = World::new();
    let v1 = world.session("v1", "s1", 50);
    world.refresh("v1", Mode::Initial, None, &v1).unwrap();
    let before = world.baselines.history("chat").unwrap();
    let add = |release: &str, session: &str, verdict| {
        refusal(world.refresh(release, Mode::AddSession, verdict, &world.session(release, session, 50)))
    };
    for verdict in [Verdict::Fail, Verdict::NotComparable, Verdict::Error, Verdict::NotApplicable] {
        assert!(matches!(add("v1", "s2", Some(verdict)), Refusal::Verdict { .. }), "{verdict}");
    }
    let worse = add("v1", "s2", Some(Verdict::Fail)).to_string();
    assert!(
        worse.ends_with(
            "; the same release is shown worse than in its other sessions: find out why, and measure the session again"
        ),
        "{worse}"
    );
    assert_eq!(add("v1", "s2", None), Refusal::NotJudged);
    assert!(matches!(add("v1", "s1", None), Refusal::SameSession(_)));
    assert!(matches!(add("v2", "s2", None), Refusal::OtherRelease { .. }));
    let rebase = |reason: &str, verdict, runs: &[PathBuf]| {
        refusal(world.refresh("v2", Mode::Rebase(reason.to_owned()), verdict, runs))
    };
    let v2 = world.session("v2", "s2", 50);
    assert_eq!(rebase(" ", None, &v2), Refusal::Unsaid("the reason"));
    assert!(matches!(rebase("x", Some(Verdict::Error), &v2), Refusal::Verdict { .. }));
    assert_eq!(
        refusal(world.refresh("v1", Mode::Next, Some(Verdict::Pass), &v1)),
        Refusal::SameRelease("v1".to_owned())
    );
    assert_eq!(world.baselines.history("chat").unwrap(), before);
}

#[test]
fn runs_that_do_not_belong_together_are_refused() {
    let world = World::new();
    let run = |sequence, change| world.run("v1", ("s1", sequence), 50, change);
    let good = run(0, |_| {});
    let initial = |runs: &[PathBuf]| refusal(world.refresh("v1", Mode::Initial, None, runs));
    assert!(
        matches!(initial(&[good.clone(), good.clone()]), Refusal::Duplicate { what, .. } if what == "the same digest")
    );
    let twin = world.run("v1", ("s1", 0), 60, |_| {});
    assert!(matches!(initial(&[good.clone(), twin]), Refusal::Duplicate { what, .. } if what.contains("position 0")));
    assert!(matches!(initial(&[run(1, |m| m.release = "v0".to_owned())]), Refusal::WrongRelease { .. }));
    assert!(matches!(initial(&[run(1, |m| m.workload = "code".to_owned())]), Refusal::WrongWorkload { .. }));
    assert!(matches!(initial(&[run(1, |m| m.complete = false)]), Refusal::Incomplete { .. }));
    let other_plan = run(1, |m| m.plan = Digest::of(b"other"));
    assert!(
        matches!(initial(&[good.clone(), other_plan.clone()]), Refusal::Mixed { what, .. } if what.starts_with("the plan"))
    );
}

#[test]
fn conditions_agree_inside_a_release_and_the_method_across_releases() {
    let world = World::new();
    let run = |sequence, change| world.run("v1", ("s1", sequence), 50, change);
    let good = run(0, |_| {});
    let initial = |runs: &[PathBuf]| refusal(world.refresh("v1", Mode::Initial, None, runs));
    let driver = |m: &mut Manifest| {
        m.conditions.insert(Condition::Driver, Known { value: "570".to_owned(), source: Source::Probed });
    };
    assert!(matches!(
        initial(&[good.clone(), run(1, driver)]),
        Refusal::Mixed { what, .. } if what == "driver (`unknown`, `570`)"
    ));
    // A host that generates the load is recorded and may differ.
    let host = |m: &mut Manifest| {
        m.conditions.insert(Condition::GeneratorHost, Known { value: "ci-7".to_owned(), source: Source::Probed });
    };
    world.refresh("v1", Mode::Initial, None, &[good, run(1, host)]).unwrap();
    let moved = world.run("v1", ("s2", 0), 50, driver);
    assert!(matches!(refusal(world.refresh("v1", Mode::AddSession, None, &[moved])), Refusal::Moved { .. }));
    let moved = world.run("v2", ("s2", 0), 50, |m| m.plan = Digest::of(b"other"));
    assert!(matches!(refusal(world.refresh("v2", Mode::Next, Some(Verdict::Pass), &[moved])), Refusal::Moved { .. }));
}

#[test]
fn a_run_that_can_never_count_is_refused_in_every_mode() {
    let world = World::new();
    world.refresh("v1", Mode::Initial, None, &world.session("v1", "s1", 50)).unwrap();
    let before = world.baselines.history("chat").unwrap();
    let late = |record: &mut Record| record.sent = record.due + Nanos::from_millis(12);
    let hollow = |record: &mut Record| record.output_tokens = None;
    let faults: [(Wrong, u32, &str); 3] = [
        (late, 0, "sent requests 12.0 ms late (p99) where 1.0 ms are allowed; give the load generator more CPU"),
        (hollow, 0, "without content or tokens; see what the server sends"),
        (|_| {}, 10, "has 30 of 40 planned requests; measure it again"),
    ];
    for (change, missing, seen) in faults {
        for (release, mode) in [("v1", Mode::AddSession), ("v2", Mode::Next), ("v2", Mode::Rebase("why".to_owned()))] {
            let run = world.faulty(release, "s2", change, missing);
            let refused = refusal(world.refresh(release, mode.clone(), Some(Verdict::Pass), &[run]));
            let message = refused.to_string();
            assert!(matches!(refused, Refusal::DoesNotCount { .. }), "{message}");
            for part in ["runs/", " does not count at c8: it ", seen, ", or name only runs that count"] {
                assert!(message.contains(part), "no `{part}` in `{message}` ({mode:?})");
            }
        }
    }
    assert_eq!(world.baselines.history("chat").unwrap(), before);
    let first = World::new();
    let run = first.faulty("v1", "s1", late, 0);
    assert!(matches!(refusal(first.refresh("v1", Mode::Initial, None, &[run])), Refusal::DoesNotCount { .. }));
}

#[test]
fn names_and_times_from_outside_are_checked() {
    let world = World::new();
    let runs = world.session("v1", "s1", 50);
    let good = refresh("v1", Mode::Initial, None, &runs);
    for bad in [Refresh { release: "../v1", ..good.clone() }, Refresh { workload: "/etc", ..good.clone() }] {
        assert!(matches!(world.baselines.refresh(&bad), Err(BaselineError::File(FileError::Name { .. }))));
    }
    let late = Refresh { at: "yesterday", ..good.clone() };
    assert_eq!(refusal(world.baselines.refresh(&late)), Refusal::NotATime("yesterday".to_owned()));
    let nobody = Refresh { approved_by: "", ..good };
    assert_eq!(refusal(world.baselines.refresh(&nobody)), Refusal::Unsaid("the approver"));
    for (number, (from, to)) in (0..).zip([("\"s9\"", "\"../../x\""), ("\"chat\"", "\"../w\""), ("\"v1\"", "\"a/b\"")])
    {
        let run = world.run("v1", ("s9", number), 50, |_| {});
        let manifest = run.join("manifest.json");
        let forged = fs::read_to_string(&manifest).unwrap().replacen(from, to, 1);
        fs::write(&manifest, forged).unwrap();
        let refused = world.refresh("v1", Mode::Initial, None, &[run]);
        assert!(matches!(refused, Err(BaselineError::Run(RunError::Name { .. }))), "{to}: {refused:?}");
    }
    assert!(world.baselines.load_active("..").is_err() && world.baselines.history("a/b").is_err());
    assert!(matches!(world.baselines.show("chat", Some("v9")), Err(BaselineError::Unknown { .. })));
}

/// Makes the writes of a change one by one, as a process would that is killed after each: until the last one the old
/// state counts, and the same change can be made again.
fn killed_after_each_write(world: &World, change: &Refresh<'_>) {
    let active = || world.baselines.load_active("chat").unwrap().map(|active| active.digest);
    let old = active();
    let (writes, new) = world.baselines.refresh_writes(change).unwrap();
    for write in &writes[..writes.len() - 1] {
        write_in_order(std::slice::from_ref(write)).unwrap();
        assert_eq!(active(), old, "{}", write.0.display());
        assert_eq!(world.baselines.refresh_writes(change).unwrap().1, new, "{}", write.0.display());
    }
    assert_eq!(world.baselines.refresh(change).unwrap(), new);
    assert_eq!(active(), Some(new.digest));
    assert_eq!(world.baselines.verify(None).unwrap(), []);
}

#[test]
fn a_kill_between_any_two_writes_leaves_the_old_state_or_the_new_one() {
    let world = World::new();
    let step = |release: &str, mode: Mode, session: &str| {
        let runs = world.session(release, session, 50);
        killed_after_each_write(&world, &refresh(release, mode, Some(Verdict::Pass), &runs));
    };
    step("v1", Mode::Initial, "s1");
    step("v1", Mode::AddSession, "s2");
    step("v2", Mode::Next, "s3");
    step("v2", Mode::Rebase("why".to_owned()), "s3");
    assert_eq!(world.baselines.history("chat").unwrap().len(), 4);
}

#[test]
fn every_changed_file_is_found() {
    let world = World::new();
    world.refresh("v1", Mode::Initial, None, &world.session("v1", "s1", 50)).unwrap();
    world.refresh("v1", Mode::AddSession, Some(Verdict::Pass), &world.session("v1", "s2", 51)).unwrap();
    let root = world.folder.path().join("baselines/chat");
    let files = files(&root);
    assert_eq!(files.len(), 4 * 2 + 3, "four runs, two manifests, one history");
    for file in files {
        let good = fs::read(&file).unwrap();
        let mut bad = good.clone();
        let middle = bad.len().div_euclid(2);
        bad[middle] ^= 1;
        fs::write(&file, bad).unwrap();
        assert!(!world.baselines.verify(None).unwrap().is_empty(), "{} changed", file.display());
        fs::remove_file(&file).unwrap();
        let last_manifest = file.ends_with("baseline.1.json") || file.ends_with("baseline.json");
        let history = file.ends_with("history.jsonl");
        assert!(history || last_manifest || world.baselines.load_active("chat").is_err(), "{} removed", file.display());
        assert!(!world.baselines.verify(None).unwrap().is_empty(), "{} removed", file.display());
        fs::write(&file, good).unwrap();
    }
    assert_eq!(world.baselines.verify(Some("chat")).unwrap(), []);
}

#[test]
fn a_history_line_that_was_removed_or_changed_is_found() {
    let world = World::new();
    world.refresh("v1", Mode::Initial, None, &world.session("v1", "s1", 50)).unwrap();
    world.refresh("v2", Mode::Next, Some(Verdict::Pass), &world.session("v2", "s2", 51)).unwrap();
    let path = world.folder.path().join("baselines/chat/history.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let (first, second) = text.split_once('\n').unwrap();
    for bad in [second.to_owned(), text.replacen("\"by\":\"sre\"", "\"by\":\"me\"", 1), text.trim_end().to_owned()] {
        fs::write(&path, bad).unwrap();
        assert!(matches!(world.baselines.load_active("chat"), Err(BaselineError::Damaged { .. })));
    }
    fs::write(&path, first.replacen("\"format\":1", "\"format\":2", 1) + "\n").unwrap();
    assert!(matches!(world.baselines.load_active("chat"), Err(BaselineError::Newer { found: 2, .. })));
}

/// Writes a history whose lines are changed, with every digest in it right again.
fn rewrite_history(path: &Path, change: impl Fn(&mut Event)) {
    let text = fs::read_to_string(path).unwrap();
    let (mut bytes, mut previous) = (Vec::new(), None);
    for line in text.lines() {
        let mut event: Event = serde_json::from_str(line).unwrap();
        change(&mut event);
        event.previous = previous;
        let line = serde_json::to_vec(&event).unwrap();
        previous = Some(Digest::of(&line));
        bytes.extend(line);
        bytes.push(b'\n');
    }
    fs::write(path, bytes).unwrap();
}

#[track_caller]
fn faulted(world: &World, path: &str, what: &str) {
    let faults = world.baselines.verify(None).unwrap();
    let found = faults.iter().any(|fault| fault.path.ends_with(path) && fault.what.contains(what));
    assert!(found, "no fault of {path} with `{what}`: {faults:?}");
}

#[test]
fn odd_names_and_bad_dates_are_faults() {
    let world = World::new();
    world.refresh("v1", Mode::Initial, None, &world.session("v1", "s1", 50)).unwrap();
    let chat = world.folder.path().join("baselines/chat");
    for odd in ["chat/v1 (copy)", "chat/v2.partial", "ch at"] {
        let folder = chat.with_file_name(odd);
        fs::create_dir(&folder).unwrap();
        faulted(&world, odd, "cannot be a folder name");
        fs::remove_dir(&folder).unwrap();
    }
    // What people keep beside the baselines is no fault.
    fs::write(chat.with_file_name("README.md"), "").unwrap();
    fs::create_dir(chat.with_file_name(".git")).unwrap();
    assert_eq!(world.baselines.verify(None).unwrap(), []);

    let path = chat.join("history.jsonl");
    let good = fs::read(&path).unwrap();
    rewrite_history(&path, |event| event.at = "2026-02-30T00:00:00Z".to_owned());
    faulted(&world, "chat", "line 1: `at` is not a time in RFC 3339: `2026-02-30T00:00:00Z`");
    rewrite_history(&path, |event| event.release = "../v1".to_owned());
    faulted(&world, "chat", "line 1: release `../v1` cannot be a folder name");
    fs::write(&path, &good).unwrap();

    let manifest = chat.join("v1/baseline.json");
    let text = fs::read_to_string(&manifest).unwrap();
    for (from, to, what) in [
        ("\"approved_at\": \"2026-02-01T12:00:00Z\"", "\"approved_at\": \"soon\"", "`approved_at` is not a time"),
        ("\"started\": \"2026-01-01T00:00:00Z\"", "\"started\": \"once\"", "`started` is not a time"),
        ("\"workload\": \"chat\"", "\"workload\": \"../w\"", "workload `../w` cannot be a folder name"),
        ("\"workload\": \"chat\"", "\"workload\": \"code\"", "its manifest is of release `v1` of workload `code`"),
    ] {
        let forged = text.replacen(from, to, 1);
        assert_ne!(forged, text, "{from}");
        fs::write(&manifest, &forged).unwrap();
        rewrite_history(&path, |event| event.digest = Digest::of(forged.as_bytes()));
        faulted(&world, "v1", what);
        assert!(world.baselines.load_active("chat").is_err(), "{what}");
    }
}

#[cfg(unix)]
#[test]
fn symbolic_links_in_the_store_are_faults() {
    let world = World::new();
    world.refresh("v1", Mode::Initial, None, &world.session("v1", "s1", 50)).unwrap();
    let chat = world.folder.path().join("baselines/chat");
    let run = files(&chat.join("v1/runs")).remove(0).parent().unwrap().to_owned();
    let parts = [run.join("manifest.json"), run, chat.join("v1/runs"), chat.join("v1/baseline.json"), chat.join("v1")];
    for part in parts.into_iter().chain([chat.join("history.jsonl"), chat]) {
        let elsewhere = world.folder.path().join("elsewhere");
        fs::rename(&part, &elsewhere).unwrap();
        symlink(&elsewhere, &part).unwrap();
        for workload in [None, Some("chat")] {
            let faults = world.baselines.verify(workload).unwrap();
            let found =
                faults.iter().any(|fault| fault.path == part && fault.what.starts_with("it is a symbolic link"));
            assert!(found, "{}: {faults:?}", part.display());
        }
        fs::remove_file(&part).unwrap();
        fs::rename(&elsewhere, &part).unwrap();
    }
    assert_eq!(world.baselines.verify(None).unwrap(), []);
}

#[test]
fn two_processes_do_not_change_the_baselines_at_once() {
    let world = World::new();
    let runs = world.session("v1", "s1", 50);
    let other = lock(&world.folder.path().join("baselines")).unwrap();
    assert!(matches!(world.refresh("v1", Mode::Initial, None, &runs), Err(BaselineError::Busy { .. })));
    drop(other);
    world.refresh("v1", Mode::Initial, None, &runs).unwrap();
}

#[test]
fn a_run_that_was_changed_is_not_taken() {
    let world = World::new();
    let runs = world.session("v1", "s1", 50);
    let records = runs[0].join("records.jsonl.zst");
    let mut bytes = fs::read(&records).unwrap();
    bytes.push(0);
    fs::write(&records, bytes).unwrap();
    let refused = world.refresh("v1", Mode::Initial, None, &runs);
    assert!(matches!(refused, Err(BaselineError::Run(RunError::Changed { .. }))));
    assert_eq!(world.active(), None);
}

#[test]
fn a_rollback_needs_a_release_that_was_active() {
    let world = World::new();
    world.refresh("v1", Mode::Initial, None, &world.session("v1", "s1", 50)).unwrap();
    let to = |release| world.baselines.rollback(&World::change(release, "why"));
    assert!(matches!(to("v1"), Err(BaselineError::Refused(Refusal::AlreadyActive(_)))));
    assert!(matches!(to("v0"), Err(BaselineError::Unknown { .. })));
    let silent = world.baselines.rollback(&World::change("v1", ""));
    assert!(matches!(silent, Err(BaselineError::Refused(Refusal::Unsaid("the reason")))));
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort_unstable();
    found
}
