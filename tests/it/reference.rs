//! Pages of the book that are made from the code.

use std::fs;
use std::path::Path;

use servegate::artifact::metrics::catalogue;

/// With `SERVEGATE_WRITE_DOCS` set, the page is written instead.
#[test]
fn the_reference_of_metrics_is_what_the_catalogue_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/metrics.md");
    let page = catalogue::page();
    if std::env::var_os("SERVEGATE_WRITE_DOCS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &page).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == page,
        "docs/reference/metrics.md is behind the catalogue: SERVEGATE_WRITE_DOCS=1 cargo test the_reference_of_metrics"
    );
}
