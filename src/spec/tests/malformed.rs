//! Malformed files, and the place, code and key of every finding about them.

use std::fmt::Write as _;

use proptest::prelude::*;

use crate::base::diagnostic::Severity;
use crate::spec::tests::findings;

const POLICY: &str = "servegate: 1\nkind: policy\nname: p\nworkload: w.yaml\n";
const WORKLOAD: &str = "servegate: 1\nkind: workload\nname: w\n";
const CONFIG: &str = "servegate: 1\nkind: config\n";
const CHECKS: &str = "checks:\n  - {metric: tpot, statistic: p50, at_most: 5%}\n  - {metric: error_rate, at_most: 1pp}\n";

/// `line:column code key`, with a `?` for warnings.
fn summary(text: &str) -> String {
    findings(text).iter().fold(String::new(), |mut all, finding| {
        let mark = if finding.severity == Severity::Warning { "?" } else { "" };
        let (place, code) = (&finding.place, finding.code);
        write!(all, "{}:{} {code}{mark} {}|", place.line, place.column, finding.key).unwrap();
        all
    })
}

#[track_caller]
fn assert_found(head: &str, cases: &[(&str, &str)]) {
    let mut wrong = String::new();
    for (body, expected) in cases {
        let found = summary(&format!("{head}{body}"));
        if found.trim_end_matches('|').trim_end() != *expected {
            write!(wrong, "{body}\n  expected {expected}\n  found    {found}\n").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn what_is_not_one_plain_yaml_document_is_refused_with_its_place() {
    let bomb = "servegate: 1\na: &a [x, x, x, x, x, x, x, x, x]\n".to_owned()
        + &('b'..='i').fold(String::new(), |text, c| {
            let before = char::from(u8::try_from(c).unwrap() - 1);
            text + &format!("{c}: &{c} [{}]\n", vec![format!("*{before}"); 9].join(", "))
        });
    assert_found(
        "",
        &[
            ("", "0:0 empty-file"),
            ("# only a remark\n", "0:0 empty-file"),
            ("- a list\n", "1:1 wrong-type"),
            ("text\n", "1:1 wrong-type"),
            ("a: [1, 2\nb: 3\n", "2:2 syntax"),
            ("a: \"open\n", "1:4 syntax"),
            ("a:\n\t- b\n", "2:1 syntax"),
            ("a: *nowhere\n", "1:4 syntax"),
            ("a: 1\n---\nb: 2\n", "2:1 several-documents"),
            ("a: &x [1, *x]\n", "1:11 alias-cycle a[1]"),
            (&"[".repeat(100_000), "1:33 too-deep"),
            (&bomb, "8:30 too-large g[7]"),
            (&"a".repeat(1 << 21), "0:0 too-large"),
        ],
    );
    let found = findings(&bomb);
    assert!(found.iter().any(|finding| finding.code == "too-large"), "{found:?}");
}
