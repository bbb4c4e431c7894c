//! The examples of the documentation are files that servegate takes as they stand.

use std::fs;
use std::path::{Path, PathBuf};

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
