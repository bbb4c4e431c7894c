//! The pictures of findings.

use crate::spec::tests::findings;
use crate::spec::{read_config, render};

#[test]
fn a_picture_shows_the_line_the_place_the_reason_and_the_fix() {
    let text = "\
servegate: 1
kind: policy
name: p
workload: w.yaml
checks:
  - metric: tpot
    statistic: p50
    cells: [c1, c9]
    at_mst: 5%
  - metric: error_rate
    at_most: 1
";
    insta::assert_snapshot!(render(&findings(text), text, false), @r"
    error[missing-key]: `checks[0]`: one of `at_most`, `within` is missing
     --> f.yaml:6:5
      |
    6 |   - metric: tpot
      |     ^^^^^^
      |
      = help: add one of them to the check

    error[unknown-cell]: `checks[0].cells[1]`: the workload `w` has no cell `c9`
     --> f.yaml:8:17
      |
    8 |     cells: [c1, c9]
      |                 ^^
      |
      = help: its cells are `c1`, `c8`

    error[unknown-key]: `checks[0].at_mst`: `at_mst` is not a key of a check
     --> f.yaml:9:5
      |
    9 |     at_mst: 5%
      |     ^^^^^^
      |
      = help: did you mean `at_most`?

    error[missing-unit]: `checks[1].at_most`: `1` has no unit; a margin needs one
      --> f.yaml:11:14
       |
    11 |     at_most: 1
       |              ^
       |
       = help: write `1%`, or `1pp` for error_rate
    ");
}

#[test]
fn a_finding_about_the_whole_file_has_no_line() {
    insta::assert_snapshot!(render(&findings(""), "", false), @r"
    error[empty-file]: the file is empty
    --> f.yaml
     = help: write its keys, or delete it
    ");
}

#[test]
fn colour_is_only_there_when_asked_for() {
    let text = "servegate: 1\nkind: config\nouts: x\n";
    let plain = render(&findings(text), text, false);
    let coloured = render(&findings(text), text, true);
    assert!(!plain.contains('\u{1b}') && coloured.contains('\u{1b}'), "{plain}{coloured}");
}

#[test]
fn what_a_hostile_file_holds_cannot_steer_the_terminal_or_flood_it() {
    let text = format!(
        "servegate: 1\nkind: config\n\"\\e[2J\u{202e}{}\": \u{200b}x # {}\n",
        "k".repeat(5_000),
        "r".repeat(5_000)
    );
    let picture = render(&read_config("bad\u{1b}[2J.yaml", &text).unwrap_err(), &text, false);
    assert!(picture.chars().all(|c| c == '\n' || !c.is_control()), "{picture:?}");
    assert!(!picture.contains(['\u{202e}', '\u{200b}']));
    assert!(picture.lines().all(|line| line.chars().count() < 300), "{picture}");
}

#[test]
fn a_secret_is_never_shown_even_beside_another_fault() {
    for text in [
        "servegate: 1\nkind: config\ntargets: {t: {url: http, api_key: hunter2, model: m}}\n",
        "servegate: 1\nkind: config\ntargets: {t: {url: 'https://u:hunter2@h', mode: m}}\n",
        "servegate: 1\nkind: config\ntargets:\n  t:\n    api_key_env: sk-hunter2\n",
        "servegate: 1\nkind: config\ntargets:\n  t:\n    token: \"hunter2\n",
        "servegate: 1\nkind: config\ntargets:\n  t:\n    password: |\n      hunter2\n      hunter2\n",
    ] {
        let found = findings(text);
        let picture = render(&found, text, false);
        assert!(!found.is_empty() && !picture.contains("hunter2"), "{picture}");
        assert!(!found.iter().any(|finding| finding.to_string().contains("hunter2")), "{found:?}");
    }
}
