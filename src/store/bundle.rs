//! The evidence of one gate decision in one folder: every run that was used, the policy and workload as they were,
//! and the verdict. A second machine recomputes the verdict from it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::artifact::run::Run;
use crate::base::digest::Digest;
use crate::store::files::{FileError, PARTIAL, checked_name, folder_of, read_bounded, sync_folder, write_atomic};
use crate::store::runs::{RunError, open_run};

/// Version of the format.
pub const FORMAT: u32 = 1;
/// Name of the index, written last.
const INDEX: &str = "bundle.json";
/// Folder of the runs.
const RUNS: &str = "runs";
/// Largest index, in bytes.
const MAX_INDEX: u64 = 4 << 20;
/// Largest text, in bytes.
const MAX_TEXT: u64 = 64 << 20;

/// What a run was used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The change under judgement.
    Candidate,
    /// The baseline image in the candidate's session.
    Control,
    /// The stored baseline.
    Baseline,
    /// The anchor.
    Anchor,
    /// Earlier releases, for the noise; oldest first.
    History,
}

/// What goes into a bundle.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// Run folders by use, in the order in which they were judged.
    pub runs: BTreeMap<Part, Vec<PathBuf>>,
    /// Texts by path inside the bundle: `policies/<name>.yaml`, `workloads/<name>.yaml`, `baseline.json`, `verdict.json`.
    pub texts: BTreeMap<String, Vec<u8>>,
}

/// A bundle that was read and verified.
#[derive(Debug)]
pub struct Bundle {
    /// Version of servegate that wrote it.
    pub servegate: String,
    /// Its runs by use, in the order in which they were judged.
    pub runs: BTreeMap<Part, Vec<Run>>,
    /// Its texts by path.
    pub texts: BTreeMap<String, Vec<u8>>,
}

/// A bundle could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// A file.
    #[error(transparent)]
    File(#[from] FileError),
    /// A run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The folder holds something else.
    #[error("{} is there and is no bundle; choose another folder, or remove it", path.display())]
    NotABundle {
        /// The folder.
        path: PathBuf,
    },
    /// A part is not what the index says.
    #[error("{}: {what}; the bundle was changed: fetch it again", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Written by a newer version.
    #[error("{}: format {found} is newer than {FORMAT}, the newest that this version reads; use a newer servegate", path.display())]
    Newer {
        /// The index.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Index {
    format: u32,
    servegate: String,
    runs: BTreeMap<Part, Vec<Digest>>,
    texts: BTreeMap<String, Digest>,
}

/// Writes a bundle. A bundle that is there is replaced, when the new one is whole; anything else is left alone.
///
/// # Errors
///
/// A run does not verify, a path leads out of the bundle, or the disk refuses.
pub fn write_bundle(folder: &Path, contents: &Contents) -> Result<(), BundleError> {
    if folder.exists() && !folder.join(INDEX).exists() {
        return Err(BundleError::NotABundle { path: folder.to_owned() });
    }
    let partial = beside(folder, PARTIAL);
    remove(&partial)?;
    let mut index = Index {
        format: FORMAT,
        servegate: env!("CARGO_PKG_VERSION").to_owned(),
        runs: BTreeMap::new(),
        texts: BTreeMap::new(),
    };
    for (part, paths) in &contents.runs {
        for path in paths {
            let opened = open_run(path)?;
            for (name, bytes) in &opened.files {
                write_atomic(&partial.join(RUNS).join(opened.id.short()).join(name), bytes)?;
            }
            index.runs.entry(*part).or_default().push(opened.id);
        }
    }
    for (name, bytes) in &contents.texts {
        write_atomic(&inside(&partial, name)?, bytes)?;
        index.texts.insert(name.clone(), Digest::of(bytes));
    }
    let path = partial.join(INDEX);
    let changed = |error: serde_json::Error| BundleError::Changed { path: path.clone(), what: error.to_string() };
    let mut bytes = serde_json::to_vec_pretty(&index).map_err(changed)?;
    bytes.push(b'\n');
    write_atomic(&path, &bytes)?;

    let old = beside(folder, ".old.partial");
    remove(&old)?;
    if folder.exists() {
        fs::rename(folder, &old).map_err(FileError::of("rename", folder))?;
    }
    fs::rename(&partial, folder).map_err(FileError::of("rename", &partial))?;
    sync_folder(folder_of(folder))?;
    Ok(remove(&old)?)
}

/// Removes a bundle, when there is one.
///
/// # Errors
///
/// Something else is in its place, which is left alone; or the disk refuses.
pub fn remove_bundle(folder: &Path) -> Result<(), BundleError> {
    let is_link = folder.is_symlink();
    if folder.join(INDEX).exists() && !is_link {
        Ok(remove(folder)?)
    } else if folder.exists() || is_link {
        Err(BundleError::NotABundle { path: folder.to_owned() })
    } else {
        Ok(())
    }
}

/// Reads a bundle and verifies every part of it.
///
/// # Errors
///
/// A part is missing, was changed, is too large, or is newer than this version.
pub fn read_bundle(folder: &Path) -> Result<Bundle, BundleError> {
    /// What every version has.
    #[derive(Deserialize)]
    struct Version {
        format: u32,
    }

    let path = folder.join(INDEX);
    let bytes = read_bounded(&path, MAX_INDEX)?;
    let unreadable = |error: serde_json::Error| BundleError::Changed {
        path: path.clone(),
        what: error.to_string().chars().take(300).flat_map(char::escape_default).collect(),
    };
    let Version { format } = serde_json::from_slice(&bytes).map_err(unreadable)?;
    if format > FORMAT {
        return Err(BundleError::Newer { path, found: format });
    }
    let index: Index = serde_json::from_slice(&bytes).map_err(unreadable)?;
    let mut bundle = Bundle { servegate: index.servegate, runs: BTreeMap::new(), texts: BTreeMap::new() };
    for (part, ids) in &index.runs {
        for id in ids {
            let path = folder.join(RUNS).join(id.short());
            if path.is_symlink() {
                let what = format!("runs/{} is a symbolic link; a bundle holds its runs", id.short());
                return Err(BundleError::Changed { path, what });
            }
            let opened = open_run(&path)?;
            if opened.id != *id {
                let what = format!("its digest is {} and the index says {id}", opened.id);
                return Err(BundleError::Changed { path, what });
            }
            bundle.runs.entry(*part).or_default().push(opened.run);
        }
    }
    for (name, digest) in index.texts {
        let path = inside(folder, &name)?;
        let bytes = read_bounded(&path, MAX_TEXT)?;
        let found = Digest::of(&bytes);
        if found != digest {
            return Err(BundleError::Changed {
                path,
                what: format!("its digest is {found} and the index says {digest}"),
            });
        }
        bundle.texts.insert(name, bytes);
    }
    Ok(bundle)
}

/// A path inside the bundle: every step a plain name.
fn inside(folder: &Path, name: &str) -> Result<PathBuf, FileError> {
    name.split('/').try_fold(folder.to_owned(), |path, step| Ok(path.join(checked_name("a file of a bundle", step)?)))
}

fn beside(folder: &Path, ending: &str) -> PathBuf {
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(ending);
    folder.with_file_name(name)
}

fn remove(folder: &Path) -> Result<(), FileError> {
    if folder.exists() { fs::remove_dir_all(folder).map_err(FileError::of("remove", folder)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use tempfile::tempdir;

    use super::*;
    use crate::artifact::codec::manifest::tests::manifest_of;
    use crate::artifact::codec::samples::streamed;
    use crate::store::runs::{MANIFEST, RECORDS, RunWriter};

    fn contents(folder: &Path) -> Contents {
        let mut runs: BTreeMap<Part, Vec<PathBuf>> = BTreeMap::new();
        for (part, name, ttft) in [
            (Part::Candidate, "c0", 50),
            (Part::Candidate, "c1", 51),
            (Part::Control, "a0", 52),
            (Part::Baseline, "b0", 53),
        ] {
            let path = folder.join(name);
            let records = [streamed(0, 0, ttft, 10, 5)];
            let mut writer = RunWriter::create(&path, &manifest_of(&records)).unwrap();
            writer.record(&records[0]).unwrap();
            writer.finish(manifest_of(&records)).unwrap();
            runs.entry(part).or_default().push(path);
        }
        let texts = [("policies/kv.yaml", "checks"), ("workloads/chat.yaml", "cells"), ("verdict.json", "{}")];
        let texts = texts.into_iter().map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec())).collect();
        Contents { runs, texts }
    }

    #[test]
    fn a_bundle_reads_back_and_replaces_only_a_bundle() {
        let folder = tempdir().unwrap();
        let contents = contents(folder.path());
        let path = folder.path().join("out/bundle");
        write_bundle(&path, &contents).unwrap();
        write_bundle(&path, &contents).unwrap();
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        let bundle = read_bundle(&path).unwrap();
        assert_eq!(bundle.texts, contents.texts);
        let ttft = |run: &Run| run.records[0].first_content().unwrap().as_ms();
        assert_eq!(bundle.runs[&Part::Candidate].iter().map(ttft).collect::<Vec<_>>(), [50.0, 51.0]);
        assert_eq!(bundle.runs[&Part::Baseline].iter().map(ttft).collect::<Vec<_>>(), [53.0]);
        let message = write_bundle(folder.path(), &contents).unwrap_err().to_string();
        assert!(message.ends_with("is there and is no bundle; choose another folder, or remove it"), "{message}");
    }

    #[test]
    fn every_changed_part_is_found() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("bundle");
        write_bundle(&path, &contents(folder.path())).unwrap();
        let run = fs::read_dir(path.join(RUNS)).unwrap().next().unwrap().unwrap().path();
        for file in [path.join("verdict.json"), path.join("policies/kv.yaml"), run.join(MANIFEST), run.join(RECORDS)] {
            let good = fs::read(&file).unwrap();
            let mut bad = good.clone();
            bad.push(b' ');
            fs::write(&file, bad).unwrap();
            assert!(read_bundle(&path).is_err(), "{}", file.display());
            fs::write(&file, good).unwrap();
        }
        read_bundle(&path).unwrap();
    }

    #[test]
    fn an_index_cannot_lead_out_of_the_bundle() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("bundle");
        write_bundle(&path, &contents(folder.path())).unwrap();
        let index = fs::read_to_string(path.join(INDEX)).unwrap();
        fs::write(path.join(INDEX), index.replace("policies/kv.yaml", "../c0/manifest.json")).unwrap();
        assert!(matches!(read_bundle(&path), Err(BundleError::File(FileError::Name { .. }))));
        fs::write(path.join(INDEX), index.replace("\"format\": 1", "\"format\": 2")).unwrap();
        assert!(matches!(read_bundle(&path), Err(BundleError::Newer { found: 2, .. })));
    }
}
