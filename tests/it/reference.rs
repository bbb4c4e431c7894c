//! Pages of the book that are made from the code.

use std::fs;
use std::path::Path;

use servegate::artifact::metrics::catalogue;
use servegate::base::names::Metric;
use servegate::sim::profile::Change;
use servegate::sim::scenario::{Must, SCENARIOS, Scenario};

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

fn row(scenario: &Scenario) -> String {
    let change = |(name, change): &(&str, Change)| match change {
        Change::Set(value) => format!("`{name}` {value}"),
        Change::Scale(factor) => format!("`{name}` x {factor}"),
    };
    let changes: Vec<String> = scenario.changes.iter().map(change).collect();
    let cells: Vec<&str> = scenario.expected.iter().map(|expected| expected.cell).collect();
    assert_eq!(cells, ["c1", "c8", "c64", "c160"], "the columns of the page");
    assert!(scenario.expected.iter().all(|expected| expected.metric == Metric::Itl));
    let effects: Vec<String> =
        scenario.expected.iter().map(|expected| format!("{:+.1} %", expected.effect * 100.0)).collect();
    let must = match scenario.must {
        Must::Catch => "catch it",
        Must::Pass => "let it pass",
    };
    format!("| {} {} | {} | {} | {must} |\n", scenario.id, scenario.name, changes.join(", "), effects.join(" / "))
}

/// With `SERVEGATE_WRITE_DOCS` set, the rows are written instead.
#[test]
fn the_table_of_scenarios_is_what_the_simulator_has() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/simulator.md");
    let page = fs::read_to_string(&path).unwrap();
    let start = page.find("| S01 ").unwrap();
    let end = start + page[start..].find("\n\n").unwrap() + 1;
    let rows: String = SCENARIOS.iter().map(row).collect();
    if std::env::var_os("SERVEGATE_WRITE_DOCS").is_some() {
        fs::write(&path, format!("{}{rows}{}", &page[..start], &page[end..])).unwrap();
    } else {
        assert_eq!(&page[start..end], rows, "SERVEGATE_WRITE_DOCS=1 cargo test the_table_of_scenarios");
    }
}
