//! Files that tests may read but the repository does not hold.

use std::path::PathBuf;

/// A file of the shared folder: `SERVEGATE_SHARED`, or `shared` beside the repository. None where it is absent.
pub(super) fn shared(path: &str) -> Option<Vec<u8>> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let folder = std::env::var_os("SERVEGATE_SHARED").map_or_else(beside, PathBuf::from);
    std::fs::read(folder.join(path)).ok()
}
