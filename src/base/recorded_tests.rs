//! Files that tests may read but the repository does not hold.

use std::path::PathBuf;

/// A file of the shared folder: `SERVEGATE_SHARED`, or `shared` beside the repository. None where it is absent.
pub(crate) fn shared(path: &str) -> Option<Vec<u8>> {
    std::fs::read(place(path)).ok()
}

/// A folder of it.
pub(crate) fn shared_folder(path: &str) -> Option<PathBuf> {
    Some(place(path)).filter(|folder| folder.is_dir())
}

fn place(path: &str) -> PathBuf {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared");
    std::env::var_os("SERVEGATE_SHARED").map_or_else(beside, PathBuf::from).join(path)
}
