//! Tests of the reader of metrics pages: by hand, by property, by mutation, and on real pages where they are.

use std::fmt::Write as _;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::base::recorded_tests::{shared, shared_folder};
use crate::base::rng::Stream;
use crate::wire::exposition::{MAX_LABELS, MAX_LINE, MAX_SAMPLES, MAX_WORD, Page, parse};
use crate::wire::fuzz::check_page;

/// A page as prometheus clients, hand-written servers and `OpenMetrics` libraries write them.
const ODD: &str = "\u{feff}# HELP vllm:generation_tokens_total Number of generation tokens processed.\r\n\
    # TYPE vllm:generation_tokens_total counter\r\n\
    vllm:generation_tokens_total{engine=\"0\",model_name=\"tiny\"} 1284.0\r\n\
    vllm:generation_tokens_created{engine=\"0\",model_name=\"tiny\"} 1.7960559993590853e+09\r\n\
    \r\n\
    llamacpp:prompt_tokens_total 0\n\
    sglang:prompt_tokens_total{model_name=\"a/b\"} 8.128902e+06 1700000000000\n\
    h_bucket{ x = \"1\" , le=\"+Inf\", } 37 # {trace_id=\"a} b\"} 0.5 1.5\n\
    tgis{method=\"{'method': 'prefill'}\"} 3\n\
    esc{a=\"q\\\"b\\\\n\\nl\\x\"} NaN\n\
    {\"utf8.näme\",le=\"1\"} -Inf\n\
    spaced \t 1 \n\
    this is no sample\n\
    no_value\n\
    bad_value{a=\"b\"} 1,2\n\
    open{a=\"b 1\n\
    # EOF\n\
    after:eof{} +Inf";

fn one(line: &str) -> Option<f64> {
    let page = parse(line.as_bytes());
    assert_eq!(page.samples.len() + page.unread, 1, "{line}");
    page.samples.first().map(|sample| sample.value)
}

#[test]
fn every_odd_line_is_a_sample_or_is_counted() {
    let page = parse(ODD.as_bytes());
    let names: Vec<&str> = page.samples.iter().map(|sample| sample.name.as_ref()).collect();
    let expected = [
        "vllm:generation_tokens_total",
        "vllm:generation_tokens_created",
        "llamacpp:prompt_tokens_total",
        "sglang:prompt_tokens_total",
        "h_bucket",
        "tgis",
        "esc",
        "utf8.näme",
        "spaced",
        "after:eof",
    ];
    assert_eq!((names, page.unread, page.cut), (expected.to_vec(), 4, false));
    let label = |sample: usize, name| page.samples[sample].label(name);
    assert_eq!((label(0, "model_name"), label(4, "le"), label(4, "x")), (Some("tiny"), Some("+Inf"), Some("1")));
    assert_eq!(label(5, "method"), Some("{'method': 'prefill'}"));
    assert_eq!(label(6, "a"), Some("q\"b\\n\nl\\x"));
    let bits: Vec<u64> = page.samples.iter().map(|sample| sample.value.to_bits()).collect();
    let finite = [1_284.0_f64, 1.796_055_999_359_085_3e9, 0.0, 8_128_902.0, 37.0, 3.0];
    assert_eq!(bits[..6], finite.map(f64::to_bits));
    assert!(page.samples[6].value.is_nan());
    assert_eq!(bits[7..], [f64::NEG_INFINITY, 1.0, f64::INFINITY].map(f64::to_bits));
}

#[test]
fn what_is_read_is_bounded() {
    let labels = |count: usize| vec!["a=\"b\""; count].join(",");
    assert_eq!(one(&format!("m{{{}}} 1", labels(MAX_LABELS))), Some(1.0));
    assert_eq!(one(&format!("m{{{}}} 1", labels(MAX_LABELS + 1))), None);
    assert_eq!(one(&format!("m{{a=\"{}\"}} 1", "x".repeat(MAX_WORD))), Some(1.0));
    assert_eq!(one(&format!("m{{a=\"{}\"}} 1", "x".repeat(MAX_WORD + 1))), None);
    assert_eq!(one(&format!("{} 1", "m".repeat(MAX_WORD + 1))), None);
    assert_eq!(one(&format!("m 1 #{}", "x".repeat(MAX_LINE))), None);
    let page = "m 1\n".repeat(MAX_SAMPLES + 5);
    let page = parse(page.as_bytes());
    assert_eq!((page.samples.len(), page.cut), (MAX_SAMPLES, true));
    // The limit falls into the last number: what is left of it would be another one.
    let mut large = "#\n".repeat((16 << 19) - 4).into_bytes();
    large.extend(b"m 123456789");
    let page = parse(&large);
    assert_eq!((page.samples.len(), page.unread, page.cut), (0, 0, true));
}

#[test]
fn bytes_that_are_no_text_cost_their_line_only() {
    let page = parse(b"a 1\n\xff\xfe 2\nb{x=\"\xc3\x28\"} 3\nc 4\n\0\n");
    let names: Vec<_> = page.samples.iter().map(|sample| sample.name.as_ref()).collect();
    assert_eq!((names, page.unread), (vec!["a", "c"], 3));
}

/// Reads, and checks what must hold of any page.
fn sane(bytes: &[u8]) -> Page<'_> {
    assert_eq!(check_page(bytes), Ok(()));
    parse(bytes)
}

/// Bytes that mean something to a reader of these formats.
const PIECES: [&[u8]; 20] = [
    b"{", b"}", b"\"", b"\\", b"=", b",", b"#", b"\n", b"\r\n", b" ", b"\t", b"NaN", b"+Inf", b"1e999", b"\xff", b"\0",
    b"a", b":", b"\\n", b"# EOF",
];

/// One random change.
fn mutate(bytes: &mut Vec<u8>, random: &mut Stream) {
    let mut below = |limit: usize| usize::try_from(random.bits() % u64::try_from(limit.max(1)).unwrap()).unwrap();
    let (at, length) = (below(bytes.len()), below(40));
    let end = (at + length).min(bytes.len());
    match below(5) {
        0 => drop(bytes.drain(at..end)),
        1 => {
            let copy = bytes[at..end].to_vec();
            bytes.splice(at..at, copy);
        }
        2 => bytes.truncate(at),
        3 if !bytes.is_empty() => bytes[at] = u8::try_from(below(256)).unwrap(),
        _ => drop(bytes.splice(at..at, PIECES[below(PIECES.len())].iter().copied())),
    }
}

#[test]
fn no_mutation_of_a_page_makes_it_panic() {
    let mut random = Stream::named(7, "exposition");
    for _ in 0..20_000 {
        let mut bytes = ODD.as_bytes().to_vec();
        for _ in 0..=random.bits() % 6 {
            mutate(&mut bytes, &mut random);
        }
        sane(&bytes);
    }
}

#[test]
fn the_time_grows_with_the_bytes_and_not_faster() {
    // Each would take minutes where a piece of a line is looked at again and again.
    for piece in ["a=\"\\\\\",", "\\", "{", "\"", " ", "a=\"b\",", "#"] {
        let line = piece.repeat(MAX_LINE);
        for head in ["m{", "m{a=\"", "{\"", ""] {
            sane(format!("{head}{line}\n").repeat(4).as_bytes());
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn what_a_client_library_writes_is_read_back(
        samples in vec(("[a-zA-Z_:][a-zA-Z0-9_:]{0,20}", vec(("[a-zA-Z_][a-zA-Z0-9_]{0,8}", "\\PC{0,12}|[\\\\\"\n{},= ]{0,6}"), 0..5), any::<f64>()), 0..12),
        ending in prop::sample::select(vec!["\n", "\r\n", " 1700000000000\n", " # {a=\"b\"} 1\n"]),
        closed: bool,
    ) {
        let mut text = String::new();
        for (name, labels, value) in &samples {
            let labels: Vec<String> = labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
            let braces = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            write!(text, "# TYPE {name} gauge\n{name}{braces} {value}{ending}").unwrap();
        }
        let text = if closed { text.as_str() } else { text.trim_end() };
        let page = sane(text.as_bytes());
        prop_assert_eq!((page.samples.len(), page.unread), (samples.len(), 0));
        for (read, (name, labels, value)) in page.samples.iter().zip(&samples) {
            prop_assert_eq!(&read.name, name);
            let pairs: Vec<(String, String)> = read.labels.iter().map(|(l, v)| (l.to_string(), v.to_string())).collect();
            prop_assert_eq!(&pairs, labels);
            prop_assert!(read.value.to_bits() == value.to_bits() || (read.value.is_nan() && value.is_nan()));
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in vec(any::<u8>(), 0..300), text in "[a-z:{}=\", \\\\\n#0-9.+-]{0,200}") {
        sane(&bytes);
        sane(text.as_bytes());
    }
}

/// Real pages: samples and lines that are none.
/// Counted by another program than this one.
const REAL: &[(&str, usize, usize)] = &[
    ("dcgm/dcgm_exporter_readme.txt", 9, 68),
    ("dcgm/fgo_fraction__metrics__1_workload.prom", 38, 0),
    ("dcgm/fgo_mig__metrics__4_Active_Workloads.prom", 56, 1),
    ("dcgm/fgo_mig__metrics__Active_2x1g.5gb_+_2g.10gb.prom", 42, 1),
    ("dcgm/fgo_mig__metrics__Empty_mig_disabled.prom", 46, 3),
    ("dcgm/fgo_mig__metrics__Idle_1g.5gb_allocated.prom", 14, 1),
    ("expfmt_corpus/from_test_parse_1", 3, 0),
    ("expfmt_corpus/from_test_parse_3", 12, 0),
    ("expfmt_corpus/from_test_parse_4", 7, 0),
    ("expfmt_corpus/from_test_parse_error_3", 0, 1),
    ("expfmt_corpus/from_test_parse_error_6", 0, 1),
    ("expfmt_corpus/from_test_parse_error_18", 0, 1),
    ("expfmt_corpus/from_test_parse_error_19", 1, 0),
    ("expfmt_corpus/minimal", 1, 0),
    ("expfmt_corpus/testdata_text", 248, 0),
    ("llamacpp/metrics_idle.txt", 15, 0),
    ("llamacpp_real_b11434/metrics.txt", 15, 0),
    ("sglang/production_metrics_doc.txt", 91, 0),
    ("triton_trtllm/triton_metrics_doc_0.txt", 7, 0),
    ("triton_trtllm/triton_metrics_doc_1.txt", 0, 1),
    ("triton_trtllm/triton_metrics_doc_3.txt", 2, 0),
    ("triton_trtllm/trtllm_backend_readme.txt", 20, 0),
    ("vllm_families/v0.26.0.txt", 0, 36),
    ("vllm_real_0.32.0/metrics.txt", 490, 0),
    ("vllm_v0/metrics.txt", 125, 0),
];

#[test]
fn real_pages_have_the_samples_that_they_have() {
    for (path, samples, unread) in REAL {
        let Some(bytes) = shared(&format!("data/metrics/{path}")) else { continue };
        let page = sane(&bytes);
        assert_eq!((page.samples.len(), page.unread, page.cut), (*samples, *unread, false), "{path}");
    }
}

/// Every case of the `OpenMetrics` conformance suite that must parse does, to its last line. Cases that must not parse
/// may: an odd line is no reason to throw a page away.
#[test]
fn every_good_page_of_the_conformance_suite_is_read_whole() {
    let Some(folder) = shared_folder("data/metrics/openmetrics_conformance") else { return };
    let mut good = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let Some(case) = path.to_str().and_then(|path| path.strip_suffix("__metrics")) else { continue };
        let bytes = std::fs::read(&path).unwrap();
        let page = sane(&bytes);
        let verdict = std::fs::read_to_string(format!("{case}__test.json")).unwrap();
        if serde_json::from_str::<serde_json::Value>(&verdict).unwrap()["shouldParse"] == true {
            assert_eq!(page.unread, 0, "{case}");
            good += 1;
        }
    }
    assert!(good > 20, "{good}");
}
