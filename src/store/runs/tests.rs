//! Run folders, and what a kill, a full disk or a stranger does to them.

use std::io;
#[cfg(unix)]
use std::os::unix::fs::symlink;

use proptest::collection::vec;
use proptest::prelude::*;
use tempfile::tempdir;

use super::*;
use crate::artifact::codec::manifest::tests::manifest_of;
use crate::artifact::codec::samples::{any_record, streamed};
use crate::store::runs::find::{below, find};
use crate::store::runs::recover::recover;
use crate::store::runs::remains::remains;

fn records(count: u32) -> Vec<Record> {
    (0..count).map(|n| streamed(n, u64::from(n) * 400, 50, 10, 8)).collect()
}

fn write(path: &Path, records: &[Record]) -> StoredRun {
    let manifest = manifest_of(records);
    let mut writer = RunWriter::create(path, &manifest).unwrap();
    records.iter().try_for_each(|record| writer.record(record)).unwrap();
    writer.finish(manifest).unwrap()
}

#[test]
fn a_run_is_read_as_it_was_measured_and_is_never_overwritten() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("runs/candidate-0");
    let stored = write(&path, &records(20));
    let opened = open_run(&path).unwrap();
    assert_eq!((opened.id, opened.run.records), (stored.id, records(20)));
    assert_eq!(opened.run.manifest, stored.manifest);
    assert_eq!(fs::read_dir(&path).unwrap().count(), 2, "no draft is left");
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no partial is left");
    let again = RunWriter::create(&path, &manifest_of(&records(1))).err().unwrap().to_string();
    assert!(
        again.ends_with("candidate-0 exists already; choose another folder, a run is never overwritten"),
        "{again}"
    );
}

#[test]
fn the_same_run_has_the_same_identity() {
    let folder = tempdir().unwrap();
    let ids = ["a", "b"].map(|name| write(&folder.path().join(name), &records(20)).id);
    assert_eq!(ids[0], ids[1]);
}

#[test]
fn a_killed_measurement_loses_a_second_and_never_reads_as_whole() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("run");
    let all = records(20);
    let mut manifest = manifest_of(&all);
    manifest.cells[0].planned = 30;
    let mut writer = RunWriter::create(&path, &manifest).unwrap();
    all.iter().try_for_each(|record| writer.record(record)).unwrap();
    let partial = folder.path().join("run.partial");
    // While it is measured nobody takes it away.
    assert!(matches!(recover(&partial), Err(RunError::Measuring { .. })));
    assert!(matches!(read_run(&partial), Err(RunError::Measuring { .. })));
    // The process dies here: nothing is finished, what was flushed is on disk.
    drop(writer);
    assert!(read_run(&path).is_err() && matches!(read_run(&partial), Err(RunError::HalfWritten { .. })));
    assert!(matches!(RunWriter::create(&path, &manifest), Err(RunError::HalfWritten { .. })));

    let recovered = recover(&partial).unwrap();
    assert!(recovered.lost.is_some());
    let run = read_run(&path).unwrap();
    assert!(!run.manifest.complete);
    let cell = &run.manifest.cells[0];
    assert_eq!((cell.planned, usize::try_from(cell.attempted).unwrap()), (30, run.records.len()));
    assert_eq!(all[..run.records.len()], run.records);
    let lost = all.last().unwrap().end.since(run.records.last().unwrap().end);
    assert!(lost <= FLUSH_EVERY, "{lost}");
    assert!(!partial.exists());
}

#[test]
fn a_kill_between_manifest_and_rename_loses_nothing() {
    let folder = tempdir().unwrap();
    let (path, partial) = (folder.path().join("run"), folder.path().join("run.partial"));
    let id = write(&path, &records(5)).id;
    fs::rename(&path, &partial).unwrap();
    let left = remains(folder.path(), None).unwrap();
    assert_eq!((left.session, left.whole.len(), left.broken), ("s1".to_owned(), 0, vec![partial.clone()]));
    let recovered = recover(&partial).unwrap();
    assert!(recovered.lost.is_none() && recovered.stored.id == id && recovered.stored.manifest.complete);
    assert!(matches!(recover(&path), Err(RunError::NotPartial { .. })), "a whole run is not recovered");
}

#[test]
fn what_cannot_be_recovered_is_said() {
    let folder = tempdir().unwrap();
    let message = |name: &str| recover(&folder.path().join(name)).unwrap_err().to_string();
    write(&folder.path().join("run"), &records(3));
    assert!(message("run").ends_with("whose name ends with `.partial`"), "{}", message("run"));
    assert!(message(".partial").ends_with("whose name ends with `.partial`"));
    assert!(message("gone.partial").contains("gone.partial/draft.json: "), "{}", message("gone.partial"));
    fs::create_dir(folder.path().join("run.partial")).unwrap();
    assert!(message("run.partial").ends_with("run exists already; choose another folder, a run is never overwritten"));
    fs::create_dir(folder.path().join("early.partial")).unwrap();
    assert!(message("early.partial/").contains("was killed before its first request; remove it"));
}

/// A run of this place in a session; its folder's name says nothing about it.
fn placed(path: &Path, session: &str, sequence: u32) {
    let records = records(1);
    let manifest = Manifest { session: session.to_owned(), sequence, ..manifest_of(&records) };
    let mut writer = RunWriter::create(path, &manifest).unwrap();
    writer.record(&records[0]).unwrap();
    writer.finish(manifest).unwrap();
}

#[test]
fn runs_are_found_in_folders_and_ordered_as_they_were_measured() {
    let folder = tempdir().unwrap();
    let root = folder.path();
    for (path, session, sequence) in
        [("chat/v1/runs/b2", "s1", 1), ("chat/v1/runs/a1", "s2", 0), ("chat/v1/runs/c3", "s1", 0), ("top", "s3", 0)]
    {
        placed(&root.join(path), session, sequence);
    }
    placed(&root.join("a/b/c/d/too-deep"), "s9", 0);
    placed(&root.join(".hidden/run"), "s9", 0);
    #[cfg(unix)]
    symlink(root.join("top"), root.join("chat/v1/runs/link")).unwrap();
    let order = |paths: &[PathBuf]| -> Vec<String> {
        let name = |run: StoredRun| run.path.file_name().unwrap().to_string_lossy().into_owned();
        find(paths).unwrap().into_iter().map(name).collect()
    };
    assert_eq!(order(&[root.join("chat")]), ["c3", "b2", "a1"]);
    assert_eq!(order(&[root.to_owned()]), ["c3", "b2", "a1", "top"]);
    assert_eq!(order(&[root.join("top"), root.join("chat/v1/runs/b2")]), ["b2", "top"]);
    let none = find(&[root.join("a/b")]).map(|runs| runs.len());
    assert_eq!(none.unwrap(), 1, "one of its own folders deep");
    fs::create_dir(root.join("empty")).unwrap();
    let message = find(&[root.join("empty")]).unwrap_err().to_string();
    assert!(message.contains("empty is no run and holds none: a run is a folder with manifest.json"), "{message}");
    fs::rename(root.join("a/b/c/d/too-deep"), root.join("empty/left.partial")).unwrap();
    let message = find(&[root.join("empty")]).unwrap_err().to_string();
    assert!(message.contains("left.partial was left by a measurement that was killed"), "{message}");
}

#[test]
fn a_folder_of_everything_is_refused_and_not_searched_for_ever() {
    let folder = tempdir().unwrap();
    for name in ["a", "a/b", "c", "d"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    let message = below(folder.path(), 3).unwrap_err().to_string();
    assert!(message.ends_with("holds more than 3 folders; name the folders of the runs"), "{message}");
}

#[test]
fn an_interrupted_run_keeps_what_was_measured() {
    let folder = tempdir().unwrap();
    let mut manifest = manifest_of(&records(5));
    manifest.cells[0].planned = 100;
    manifest.cells[0].attempted = 7;
    let mut writer = RunWriter::create(&folder.path().join("run"), &manifest).unwrap();
    records(5).iter().try_for_each(|record| writer.record(record)).unwrap();
    let stored = writer.interrupted(manifest).unwrap();
    let run = read_run(&stored.path).unwrap();
    assert!(!run.manifest.complete && run.records == records(5));
}

#[test]
fn a_run_that_dropped_records_is_not_written() {
    let folder = tempdir().unwrap();
    let manifest = manifest_of(&records(5));
    let mut writer = RunWriter::create(&folder.path().join("run"), &manifest).unwrap();
    records(4).iter().try_for_each(|record| writer.record(record)).unwrap();
    let message = writer.finish(manifest).unwrap_err().to_string();
    assert!(message.contains("4 records and 5 attempted"), "{message}");
}

#[test]
fn a_full_disk_names_the_file() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let folder = tempdir().unwrap();
    let file = File::create(folder.path().join("file")).unwrap();
    let mut writer = RunWriter::over(&folder.path().join("run"), Box::new(Full), file).unwrap();
    let fault = records(20).iter().find_map(|record| writer.record(record).err()).unwrap().to_string();
    assert!(fault.starts_with("cannot write /"), "{fault}");
    assert!(
        fault.ends_with("run.partial/records.jsonl.zst: no storage space; free space or choose another folder"),
        "{fault}"
    );
}

#[test]
fn changed_bytes_are_found() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("run");
    write(&path, &records(20));
    let whole = fs::read(path.join(RECORDS)).unwrap();
    for place in [0, whole.len().div_euclid(2), whole.len() - 1] {
        let mut bytes = whole.clone();
        bytes[place] ^= 1;
        fs::write(path.join(RECORDS), bytes).unwrap();
        assert!(matches!(read_run(&path), Err(RunError::Changed { .. })), "{place}");
    }
    fs::write(path.join(RECORDS), &whole).unwrap();
    let manifest = fs::read_to_string(path.join(MANIFEST)).unwrap();
    fs::write(path.join(MANIFEST), manifest.replace("\"format\": 1", "\"format\": 7")).unwrap();
    let message = read_run(&path).unwrap_err().to_string();
    assert!(
        message.ends_with(
            "manifest.json: format 7 is newer than 1, the newest that this version reads; use a newer servegate"
        ),
        "{message}"
    );
    assert!(read_run(&folder.path().join("nothing")).unwrap_err().to_string().contains("nothing/manifest.json: "));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn whatever_is_stored_is_read_back(records in vec(any_record(), 0..8)) {
        let mut records = records;
        for (number, record) in (0_u32..).zip(&mut records) {
            record.request = number;
        }
        let mut manifest = manifest_of(&records);
        manifest.cells.iter_mut().for_each(|cell| cell.planned = 100);
        let folder = tempdir().unwrap();
        let path = folder.path().join("run");
        let mut writer = RunWriter::create(&path, &manifest).unwrap();
        records.iter().try_for_each(|record| writer.record(record)).unwrap();
        writer.finish(manifest).unwrap();
        prop_assert_eq!(read_run(&path).unwrap().records, records);
    }
}

#[test]
fn texts_are_bound_by_the_manifest_and_are_no_part_of_what_bundles_and_baselines_take() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("run");
    let all = records(3);
    let mut writer = RunWriter::create(&path, &manifest_of(&all)).unwrap().keep_texts().unwrap();
    all.iter().try_for_each(|record| writer.text(record, "abcdefghabcdefghabcdefghabcdefgh")).unwrap();
    let stored = writer.finish(manifest_of(&all)).unwrap();
    let bytes = fs::read(path.join(TEXTS)).unwrap();
    let kept = stored.manifest.texts.unwrap();
    assert_eq!((kept.digest, kept.answers, kept.cut), (Digest::of(&bytes), 3, 0));
    let opened = open_run(&path).unwrap();
    assert_eq!(opened.files.map(|(name, _)| name), [RECORDS, MANIFEST]);
    fs::remove_file(path.join(TEXTS)).unwrap();
    open_run(&path).unwrap();
}
