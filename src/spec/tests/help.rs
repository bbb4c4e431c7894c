//! The help of a finding does not lead into the next one.

use crate::spec::tests::findings;

const CONFIG: &str = "servegate: 1\nkind: config\n";
const POLICY: &str = "servegate: 1\nkind: policy\nname: p\nworkload: w.yaml\n";
const WORKLOAD: &str = "servegate: 1\nkind: workload\nname: w\ncells:\n";

/// `code: help` of each finding, in the order of the file.
fn helps(text: &str) -> Vec<String> {
    findings(text).into_iter().map(|finding| format!("{}: {}", finding.code, finding.help)).collect()
}

#[test]
fn a_required_key_is_never_to_be_removed_and_an_optional_one_may_be() {
    let target = |keys: &str| helps(&format!("{CONFIG}targets:\n  t: {{url: \"http://h\", {keys}}}\n"));
    assert_eq!(target("model: "), ["empty-value: write ..."]);
    assert_eq!(target("model: \" \""), ["empty-value: write something"]);
    assert_eq!(target("model: m, api_key_env: "), ["empty-value: write STAGING_API_KEY, or remove the key"]);
    assert_eq!(helps(&format!("{POLICY}checks: []\n")), ["empty-value: list something"]);
    assert_eq!(
        helps(&format!(
            "{POLICY}treatment: []\nchecks:\n  - {{metric: tpot, statistic: p50, at_most: 5%}}\n  - {{metric: error_rate, at_most: 5pp}}\n"
        )),
        ["empty-value: list something, or remove the key"]
    );
}

#[test]
fn missing_ends_of_a_range_make_one() {
    let cell = |tokens: &str| {
        helps(&format!(
            "{WORKLOAD}  - {{name: c1, concurrency: 1, requests: 20, prompt_tokens: {tokens}, output_tokens: 8}}\n"
        ))
    };
    let added = cell("{log_normal: {median: 64, sigma: 0.5}}");
    assert_eq!(added, ["missing-key: add `max: 4096`", "missing-key: add `min: 1`"]);
    assert_eq!(cell("{log_normal: {median: 64, sigma: 0.5, max: 4096, min: 1}}"), [""; 0]);
}

#[test]
fn one_value_in_place_of_a_mapping_is_shown_as_that_mapping() {
    let restart =
        |value: &str| helps(&format!("{CONFIG}targets:\n  t: {{url: \"http://h\", model: m, restart: {value}}}\n"));
    assert_eq!(restart("./restart.sh"), ["wrong-type: write `{command: [./restart.sh]}`"]);
    assert_eq!(restart("{command: [./restart.sh]}"), [""; 0]);
    assert_eq!(restart("./a \"b\""), ["wrong-type: write a restart: a mapping such as `{command: [...]}`"]);
}

#[test]
fn margins_that_find_nothing_are_found() {
    let check = |margin: &str| {
        helps(&format!(
            "{POLICY}checks:\n  - {{metric: tpot, statistic: p50, {margin}}}\n  - {{metric: error_rate, at_most: 5pp}}\n"
        ))
    };
    assert_eq!(
        check("at_most: 5%, floor: 0.5m"),
        ["out-of-range: write a value from `1us` to `10s`; did you mean `0.5ms`?"]
    );
    assert_eq!(check("at_most: 5%, floor: 1h"), ["out-of-range: write a value from `1us` to `10s`"]);
    let wide = "wide-margin: check the number and its unit";
    assert_eq!(check("at_most: 5%, floor: 2s"), [wide]);
    assert_eq!(check("at_most: 500%"), [wide]);
    assert_eq!(check("at_most: 50%, floor: 1s"), [""; 0]);
    let share = |points: &str| {
        helps(&format!(
            "{POLICY}checks:\n  - {{metric: tpot, statistic: p50, at_most: 5%}}\n  - {{metric: error_rate, at_most: {points}}}\n"
        ))
    };
    assert_eq!((share("99pp"), share("10pp")), (vec![wide.to_owned()], vec![]));
}

#[test]
fn a_url_with_credentials_says_what_else_is_wrong_with_it() {
    let found = findings(&format!("{CONFIG}targets:\n  t: {{url: \"https://user:hunter2@h/v1\", model: m}}\n"));
    let [only] = found.as_slice() else { panic!("{found:?}") };
    assert!(only.message.contains("credentials") && only.message.contains("ends in `/v1`"), "{}", only.message);
    assert!(only.help.contains("without the path of the API") && !format!("{only:?}").contains("hunter2"), "{only:?}");
}
