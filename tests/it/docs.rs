//! The examples of the documentation are files that servegate takes as they stand.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use servegate::base::names::Metric;

use crate::support::Scene;

/// A whole file in the text of a page.
struct Example {
    page: String,
    text: String,
}

impl Example {
    /// The value of a key at the top of the file.
    fn key(&self, key: &str) -> &str {
        let value = self.text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
        value.unwrap_or_default()
    }
}

/// Every block of YAML that is a whole file: its first line, comments aside, is the version.
fn examples() -> Vec<Example> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages: Vec<PathBuf> = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.push(root.join("README.md"));
    pages.sort();
    let mut examples = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        let blocks = text.split("\n```yaml\n").skip(1).map(|rest| rest.split("\n```").next().unwrap());
        for block in blocks {
            let first = block.lines().find(|line| !line.starts_with('#'));
            if first == Some("servegate: 1") {
                let page = page.file_name().unwrap().to_str().unwrap().to_owned();
                examples.push(Example { page, text: format!("{block}\n") });
            }
        }
    }
    examples
}

#[test]
fn every_example_file_passes_check_without_a_warning() {
    let all = examples();
    let of_kind = |kind: &str| all.iter().filter(|one| one.key("kind") == kind).collect::<Vec<_>>();
    let (workloads, policies, configs) = (of_kind("workload"), of_kind("policy"), of_kind("config"));
    assert_eq!(workloads.len() + policies.len() + configs.len(), all.len());
    assert!(!workloads.is_empty() && !policies.is_empty() && configs.len() >= 2);
    let mut files = Vec::new();
    let scene = Scene::new();
    for workload in workloads {
        let file = format!("docs/workloads/{}.yaml", workload.key("name"));
        assert!(!scene.path(&file).exists(), "two example workloads of one name would be mixed up: {file}");
        scene.write(&file, &workload.text);
        files.push(file);
    }
    for (number, example) in policies.iter().chain(&configs).enumerate() {
        let file = format!("docs/{number}-{}.yaml", example.page);
        scene.write(&file, &example.text);
        files.push(file);
    }
    let ended = scene.line(&format!("check {}", files.join(" "))).exits(0);
    assert_eq!(ended.stderr, "");
}

/// A file of the repository.
fn text(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The Rust files of a folder, without their tests.
fn sources(folder: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "rs") && !file.ends_with("tests.rs"));
    files.sort();
    let without_tests = |file: &PathBuf| {
        let text = fs::read_to_string(file).unwrap();
        text.split("#[cfg(test)]").next().unwrap().to_owned()
    };
    files.iter().map(without_tests).collect()
}

fn is_code(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c == '-')
}

/// The string that follows each mark in a source, where it looks like a code.
fn codes_after(source: &str, mark: &str) -> BTreeSet<String> {
    let after = source.split(mark).skip(1).filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next());
    after.filter(|code| is_code(code)).map(str::to_owned).collect()
}

/// The names in the first column of the tables of a part of a page.
fn first_column(page: &str) -> BTreeSet<String> {
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.map(|line| line.split(" | ").next().unwrap());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

#[test]
fn every_code_of_a_finding_about_a_file_is_documented_and_every_documented_one_exists() {
    let page = text("docs/policies.md");
    let documented = first_column(page.split("\n## Findings\n").nth(1).unwrap());
    let mut codes = codes_after(&sources("src/spec"), "Fault::new(");
    codes.extend(codes_after(&sources("src/spec"), "fault(").into_iter().filter(|code| documented.contains(code)));
    for mark in ["code: ", "finding(named, ", "finding(file, "] {
        codes.extend(codes_after(&sources("src/cli"), mark));
    }
    codes.extend(codes_after(&sources("src/plan/replay"), "Some(("));
    assert_eq!(codes, documented);
}

#[test]
fn every_code_of_a_rule_is_documented() {
    let page = text("docs/verdicts.md");
    let rules = [sources("src/verdict/rules"), sources("src/compare/rules"), sources("src/verdict")].concat();
    let strings = rules.split('"').skip(1).step_by(2);
    let codes: BTreeSet<&str> = strings
        .filter(|text| is_code(text) && text.contains('-') && !text.starts_with('-') && !text.ends_with('-'))
        .collect();
    assert!(codes.len() > 30, "{codes:?}");
    let missing: Vec<&&str> = codes.iter().filter(|code| !page.contains(&format!("`{code}`"))).collect();
    assert!(missing.is_empty(), "docs/verdicts.md lacks {missing:?}");
    for code in first_column(page.split("\n## Findings\n").nth(1).unwrap().split("\n## ").next().unwrap()) {
        assert!(
            rules.contains(&format!("\"{code}\"")) || sources("src/cli").contains(&format!("\"{code}\"")),
            "no rule has {code}"
        );
    }
}

#[test]
fn every_metric_stands_in_the_pages_that_list_them() {
    let metrics: BTreeSet<String> = Metric::ALL.iter().map(|metric| metric.id().to_owned()).collect();
    let page = text("docs/metrics.md");
    let table = page.split("\n| metric |").nth(1).unwrap().split("\n\n").next().unwrap();
    assert_eq!(first_column(table), metrics, "the table of docs/metrics.md");
    let page = text("docs/policies.md");
    let list = page.split("\nMetrics: ").nth(1).unwrap().split("\n\n").next().unwrap();
    let listed: BTreeSet<String> = list.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    assert_eq!(listed, metrics, "the list of docs/policies.md");
}

/// The fields of a table of `docs/verdict-json.md`, in the order of the page.
fn fields(section: &str) -> Vec<String> {
    let page = text("docs/verdict-json.md");
    let table = page.split(&format!("\n{section}\n")).nth(1).unwrap().split("\n#").next().unwrap().to_owned();
    let rows = table.lines().filter(|line| line.starts_with("| `")).map(|line| line.split(" | ").next().unwrap());
    let names = rows.flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>());
    names.map(|name| name.trim_end_matches("[]").to_owned()).collect()
}

#[test]
fn the_fields_of_the_verdict_stand_in_the_order_of_the_page() {
    let scene = Scene::new();
    scene.line("demo fp8-unfused --quiet").exits(1);
    let file = scene.read("servegate-out/verdict.json");
    // Fields by their depth, in the order in which they come first.
    let keys = |part: &str, indent: usize| {
        let mut keys: Vec<String> = Vec::new();
        for line in part.lines().filter(|line| line.len() - line.trim_start().len() == indent) {
            let key = line.trim_start().strip_prefix('"').and_then(|rest| rest.split_once("\": "));
            if let Some((key, _)) = key.filter(|(key, _)| !keys.iter().any(|known| known == key)) {
                keys.push(key.to_owned());
            }
        }
        keys
    };
    let (policies, effects) = file.split_once("\n  \"effects\": [").unwrap();
    let checks = policies.split("\"checks\": [").nth(1).unwrap().split("\n      ]").next().unwrap();
    assert_eq!(keys(&file, 2), fields("## The document"));
    assert_eq!(keys(policies, 6), fields("### `policies[]`"));
    assert_eq!(keys(checks, 10), fields("### `policies[].checks[]`"));
    assert_eq!(keys(effects.split("\n  ]").next().unwrap(), 6), fields("### `effects[]`"));
}
