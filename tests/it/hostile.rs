//! Text from a hostile server reaches people without breaking what they read.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};

use quick_junit::Report;

use crate::stored::first_baseline;
use crate::support::{Scene, answer, method, scripted};

/// As JSON: controls, the end of CDATA, a line break and a command of a CI runner, colour, Markdown, HTML, a
/// direction override, a long tail.
const MESSAGE: &str = "a\\u0000b ]]> </failure> \\n::error::owned\\n##[error]x \\u001b[31mred | **bold** [l](http://x) <script> @all \\u202e `c`";

fn stream(stream: &mut TcpStream, events: &[&str]) {
    let body = events.iter().map(|event| format!("data: {event}\n\n")).collect::<Vec<_>>().concat();
    answer(stream, "200 OK", "text/event-stream", &body);
}

const FIRST: &str = "{\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}";
const TOKEN: &str = "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}";
const FINISH: &str = "{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}";
const USAGE: &str = "{\"choices\":[],\"usage\":{\"prompt_tokens\":16,\"completion_tokens\":8}}";

fn good(to: &mut TcpStream) {
    let mut events = vec![FIRST];
    events.extend([TOKEN; 8]);
    events.extend([FINISH, USAGE, "[DONE]"]);
    stream(to, &events);
}

#[track_caller]
fn harmless(text: &str) {
    for bad in ["\u{1b}", "\u{0}", "\u{202e}"] {
        assert!(!text.contains(bad), "{text:?}");
    }
    for line in text.lines() {
        assert!(!line.trim_start().starts_with("::") && !line.contains("##[error]"), "{line:?}");
    }
}

#[test]
fn a_refusal_in_hostile_words_is_one_harmless_line() {
    let scene = Scene::new();
    let url = scripted(|head, to| match method(head) {
        "POST" => answer(to, "500 Oops", "application/json", &format!("{{\"error\":{{\"message\":\"{MESSAGE}\"}}}}")),
        _ => answer(
            to,
            "200 OK",
            "application/json",
            &format!("{{\"data\":[{{\"id\":\"{MESSAGE}\",\"owned_by\":\"vllm\"}}]}}"),
        ),
    });
    let ended = scene.measure(&url, "--out runs").exits(4).says(&["error: the target fails on a small request: "]);
    harmless(&ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 2, "one line and its hint: {}", ended.stderr);

    let unknown = scripted(|head, to| match method(head) {
        "POST" => answer(to, "404 Not Found", "application/json", "{\"error\":{\"message\":\"no such model\"}}"),
        _ => answer(to, "200 OK", "application/json", &format!("{{\"data\":[{{\"id\":\"{MESSAGE}\"}}]}}")),
    });
    let ended =
        scene.measure(&unknown, "--out runs").exits(4).says(&["the target does not serve model `llama-3.1-8b`"]);
    harmless(&ended.stderr);
}

#[test]
fn hostile_answers_break_no_report() {
    let scene = Scene::new();
    let healthy = scripted(|head, to| match method(head) {
        "POST" => good(to),
        _ => answer(to, "404 Not Found", "text/plain", ""),
    });
    scene.measure(&healthy, "--out runs --release v1 --quiet").exits(0);
    first_baseline(&scene, "runs");
    let count = AtomicUsize::new(0);
    let url = scripted(move |head, to| match method(head) {
        "POST" if count.fetch_add(1, Ordering::Relaxed) == 0 => good(to),
        "POST" => stream(to, &[FIRST, TOKEN, &format!("{{\"error\":{{\"message\":\"{MESSAGE}\",\"code\":500}}}}")]),
        _ if head.contains("/version") => {
            answer(to, "200 OK", "application/json", &format!("{{\"version\":\"{MESSAGE}\"}}"));
        }
        _ if head.contains("/v1/models") => {
            answer(to, "200 OK", "application/json", "{\"data\":[{\"id\":\"llama-3.1-8b\",\"owned_by\":\"vllm\"}]}");
        }
        _ => drop(to.write_all(b"HTTP/1.1 404 \x1b[31m\r\n::error::x: y\r\ncontent-length: 0\r\n\r\n")),
    });
    let ended = scene.gate(&url, "--runs 2");
    assert!(matches!(ended.code, Some(1 | 3 | 4)), "{:?} {}", ended.code, ended.stderr);
    for text in [&ended.stdout, &ended.stderr, &scene.read("servegate-out/summary.md")] {
        harmless(text);
    }
    let xml = scene.read("servegate-out/junit.xml");
    let report = Report::deserialize_from_str(&xml).unwrap();
    assert!(report.tests > 0 && !xml.contains('\u{1b}') && !xml.contains('\u{0}'));
    serde_json::from_str::<serde_json::Value>(&scene.read("servegate-out/verdict.json")).unwrap();
    scene.line("verify servegate-out/bundle").exits(0);
}

#[test]
fn garbage_instead_of_http_is_an_error_and_nothing_else() {
    let scene = Scene::new();
    for garbage in [
        &b"\x16\x03\x01\x00\x05hello"[..],
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n",
        b"",
    ] {
        let url = scripted(move |_, to| drop(to.write_all(garbage)));
        let ended = scene.measure(&url, "--out runs").exits(4).says(&["error: ", "hint: nothing was measured"]);
        harmless(&ended.stderr);
    }
}
