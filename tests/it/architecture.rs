//! The table in `docs/ARCHITECTURE.md` is the law; this test enforces it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const IMPURE: &[&str] = &[
    "std::fs",
    "std::env",
    "std::net",
    "std::process",
    "std::thread",
    "SystemTime",
    "Instant::now",
    "tokio",
    "reqwest",
    "hyper::",
    "println!",
    "eprintln!",
    "jiff::Timestamp::now",
    "Zoned::now",
    "tempfile",
];

const MAX_CODE_LINES: usize = 600;

struct Layer {
    rank: u32,
    pure: bool,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn table() -> BTreeMap<String, Layer> {
    let text = fs::read_to_string(root().join("docs/ARCHITECTURE.md")).unwrap();
    text.lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let rank = cells.first()?.parse().ok()?;
            Some((cells.get(1)?.trim_matches('`').to_owned(), Layer { rank, pure: *cells.get(2)? == "pure" }))
        })
        .collect()
}

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            out.push(path);
        }
    }
}

/// Code without comments and without the trailing test module. Files that are tests as a whole are named so.
fn code_of(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap();
    code.lines().map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n")
}

/// Every top-level module named after `crate::`, also inside `use crate::{..}`.
fn used(code: &str) -> Vec<String> {
    let ident = |s: &str| s.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut out = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        let Some(group) = rest.strip_prefix('{') else {
            out.push(ident(rest));
            continue;
        };
        let (mut depth, mut start) = (0_usize, 0_usize);
        for (i, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => {
                    out.push(ident(&group[start..i]));
                    break;
                }
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    out.push(ident(&group[start..i]));
                    start = i + 1;
                }
                _ => {}
            }
        }
    }
    out.retain(|name| !name.is_empty());
    out
}

/// Whether a `cfg(test)` module in a file of its own: declared so by its parent, named `*_tests` or `testing`.
fn is_test_file(path: &Path) -> bool {
    let stem = path.file_stem().unwrap().to_str().unwrap();
    stem == "tests" || stem.ends_with("_tests") || path.iter().any(|part| part == "tests")
}

fn faults_of(file: &Path, table: &BTreeMap<String, Layer>) -> Vec<String> {
    let rel = file.strip_prefix(root().join("src")).unwrap();
    let name = rel.display();
    let text = fs::read_to_string(file).unwrap();
    let mut faults = Vec::new();
    if !text.starts_with("//!") {
        faults.push(format!("{name}: no `//!` head"));
    }
    let module = rel.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
    if module == "lib" {
        if text.contains("pub use ") {
            faults.push("lib.rs re-exports; that hides edges from this test".to_owned());
        }
        return faults;
    }
    if module == "main" {
        return faults;
    }
    let Some(me) = table.get(module) else {
        faults.push(format!("{name}: module `{module}` is not in the table"));
        return faults;
    };
    if is_test_file(rel) {
        return faults;
    }
    let code = code_of(&text);
    for dep in used(&code).into_iter().filter(|dep| dep != module) {
        match table.get(&dep) {
            Some(it) if it.rank < me.rank => {}
            Some(_) => faults.push(format!("{name}: `{module}` must not use `{dep}`")),
            None => faults.push(format!("{name}: unknown module `{dep}`")),
        }
    }
    if me.pure {
        faults.extend(
            IMPURE
                .iter()
                .filter(|word| code.contains(**word))
                .map(|word| format!("{name}: a pure module names `{word}`")),
        );
    }
    if code.contains("super::super") {
        faults.push(format!("{name}: write `crate::`, not `super::super`"));
    }
    let lines = code.lines().filter(|line| !line.trim().is_empty()).count();
    if lines > MAX_CODE_LINES {
        faults.push(format!("{name}: {lines} lines of code, the cap is {MAX_CODE_LINES}"));
    }
    faults
}

#[test]
fn modules_use_only_lower_ranks_and_the_core_is_pure() {
    let table = table();
    let mut files = Vec::new();
    sources(&root().join("src"), &mut files);
    let faults: Vec<String> = files.iter().flat_map(|file| faults_of(file, &table)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let declared = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    for module in table.keys() {
        assert!(declared.contains(&format!("pub mod {module};")), "the table names `{module}`, lib.rs does not");
    }
}

#[test]
fn the_detector_sees_what_it_must_see() {
    assert_eq!(used("use crate::{base::units, stats};\nlet x = crate::wire::f();"), ["base", "stats", "wire"]);
    assert!(!code_of("a // crate::cli\n#[cfg(test)]\nmod tests { use crate::cli; }").contains("cli"));
    assert!(!table().is_empty());
}

#[test]
fn nothing_names_a_path_of_a_machine() {
    for path in ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Cargo.toml", ".ci/run"] {
        let text = fs::read_to_string(root().join(path)).unwrap();
        for folder in ["root", "work", "home"] {
            assert!(!text.contains(&format!("/{folder}/")), "{path} names a path below /{folder}");
        }
    }
}
