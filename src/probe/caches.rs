//! Emptying the caches of a server before a run. Each engine has a request of its own for it, and which one a server
//! knows is found out by asking.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::Value;
use tokio::time::sleep;

use crate::base::units::Nanos;
use crate::probe::control::{Control, ControlError};
use crate::report::escape;

/// Engines that empty all their caches at one request: vLLM (with `VLLM_SERVER_DEV_MODE=1`), SGLang.
const WHOLE: [&str; 2] = ["/reset_prefix_cache", "/flush_cache"];
/// More slots than these no llama.cpp has.
const MOST_SLOTS: u64 = 4_096;
/// An engine refuses while its last request is still on the way out; so often it is asked.
const TRIES: u32 = 3;
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(250);
/// Longest text that is taken over from an answer.
const MOST_CHARS: usize = 200;

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reset {
    /// The server says that its caches are empty.
    Done,
    /// It knows none of the requests: what was asked, and what it answered.
    NotOffered(String),
}

/// Asks the server to empty its caches. Nothing may be in flight.
///
/// # Errors
/// [`ControlError::NotReset`] when it knows the request and does not carry it out, or does not answer within `limit`;
/// [`ControlError::Interrupted`].
pub fn reset(control: &Control, limit: Nanos, interrupt: &AtomicBool) -> Result<Reset, ControlError> {
    let asked = control.within(limit, interrupt, empty(control))?;
    let asked = asked.unwrap_or_else(|| Err(format!("it gave no answer within {limit}")));
    asked.map_err(|seen| ControlError::NotReset { seen })
}

async fn empty(control: &Control) -> Result<Reset, String> {
    let mut absent = Vec::new();
    for path in WHOLE {
        match insist(control, path).await? {
            None => return Ok(Reset::Done),
            Some(answer) => absent.push(answer),
        }
    }
    let slots = slots(control).await?;
    for slot in 0..slots {
        if let Some(answer) = insist(control, &format!("/slots/{slot}?action=erase")).await? {
            absent.push(answer);
            return Ok(Reset::NotOffered(absent.join("; ")));
        }
    }
    Ok(if slots > 0 { Reset::Done } else { Reset::NotOffered(absent.join("; ")) })
}

/// The slots of a llama.cpp server; 0 for any other.
async fn slots(control: &Control) -> Result<u64, String> {
    let (status, body) = control.ask(Method::GET, "/props").await.map_err(|cause| format!("GET /props: {cause}"))?;
    let props: Value = serde_json::from_slice(&body).unwrap_or_default();
    let slots = props.get("total_slots").and_then(Value::as_u64).filter(|_| status.is_success()).unwrap_or_default();
    if slots > MOST_SLOTS { Err(format!("GET /props: {slots} slots are none to be believed")) } else { Ok(slots) }
}

/// Asks until the server has done it. None when it has; what it answered when it does not know the request.
async fn insist(control: &Control, path: &str) -> Result<Option<String>, String> {
    let mut tries = 1;
    loop {
        match once(control, path).await {
            Err(cause) if tries == TRIES => return Err(format!("POST {path}: {cause}, at {TRIES} tries")),
            Err(_) => sleep(PAUSE).await,
            Ok(Answer::Done) => return Ok(None),
            Ok(Answer::Unknown(seen)) => return Ok(Some(format!("POST {path}: {seen}"))),
        }
        tries += 1;
    }
}

enum Answer {
    Done,
    /// What came.
    Unknown(String),
}

async fn once(control: &Control, path: &str) -> Result<Answer, String> {
    let (mut status, mut body) = control.ask(Method::POST, path).await?;
    if status == StatusCode::METHOD_NOT_ALLOWED {
        // Early versions of SGLang.
        (status, body) = control.ask(Method::GET, path).await?;
    }
    let says: String = escape::one_line(&String::from_utf8_lossy(&body)).chars().take(MOST_CHARS).collect();
    let seen = format!("{status} {says}").trim_end().to_owned();
    match status {
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {
            Ok(Answer::Unknown(seen))
        }
        // A page for people, as gateways send it in place of what they do not know.
        _ if status.is_success() && says.starts_with('<') => Ok(Answer::Unknown(seen)),
        _ if status.is_success() && !refuses(&body) => Ok(Answer::Done),
        _ => Err(seen),
    }
}

/// vLLM says with status 200 that blocks are still in use.
fn refuses(body: &[u8]) -> bool {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    answer.get("success").and_then(Value::as_bool) == Some(false)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::probe::control::tests::{answer, control, server};

    const LIMIT: Nanos = Nanos::from_secs(60);

    fn asked(address: SocketAddr) -> Result<Reset, String> {
        reset(&control(address), LIMIT, &AtomicBool::new(false)).map_err(|error| error.to_string())
    }

    /// Method and path.
    fn line(request: &str) -> String {
        request.split(' ').take(2).collect::<Vec<_>>().join(" ")
    }

    fn missing() -> String {
        answer("404 Not Found", "{\"detail\":\"Not Found\"}")
    }

    #[test]
    fn each_engine_is_asked_in_its_own_way_and_with_the_key() {
        let vllm = server(|number, request| {
            assert!(request.contains("authorization: Bearer sk-test"), "{request}");
            assert_eq!((number, line(request).as_str()), (0, "POST /reset_prefix_cache"));
            answer("200 OK", "{\"success\":true}")
        });
        assert_eq!(asked(vllm), Ok(Reset::Done));
        let early_vllm = server(|_, _| answer("200 OK", ""));
        assert_eq!(asked(early_vllm), Ok(Reset::Done));
        let sglang = server(|_, request| match line(request).as_str() {
            "POST /flush_cache" => answer("200 OK", "Cache flushed.\nPlease check backend logs for more details."),
            _ => missing(),
        });
        assert_eq!(asked(sglang), Ok(Reset::Done));
        let early_sglang = server(|_, request| match line(request).as_str() {
            "POST /flush_cache" => answer("405 Method Not Allowed", ""),
            "GET /flush_cache" => answer("200 OK", "Cache flushed."),
            _ => missing(),
        });
        assert_eq!(asked(early_sglang), Ok(Reset::Done));
        let llama = server(|number, request| match (number, line(request).as_str()) {
            (0 | 1, _) => missing(),
            (2, "GET /props") => answer("200 OK", "{\"total_slots\":2}"),
            (3, "POST /slots/0?action=erase") => answer("200 OK", "{\"id_slot\":0,\"n_erased\":63}"),
            (4, "POST /slots/1?action=erase") => answer("200 OK", "{\"id_slot\":1,\"n_erased\":0}"),
            other => panic!("{other:?}"),
        });
        assert_eq!(asked(llama), Ok(Reset::Done));
    }

    #[test]
    fn a_server_without_any_of_them_is_not_taken_for_one_that_has_reset() {
        let Ok(Reset::NotOffered(tried)) = asked(server(|_, _| missing())) else { panic!("nothing is offered") };
        assert_eq!(
            tried,
            "POST /reset_prefix_cache: 404 Not Found {\"detail\":\"Not Found\"}; POST /flush_cache: 404 Not Found \
             {\"detail\":\"Not Found\"}"
        );
        let locked = server(|_, request| match line(request).as_str() {
            "GET /props" => answer("200 OK", "{\"total_slots\":2}"),
            "POST /slots/0?action=erase" => answer("501 Not Implemented", "Start it with `--slot-save-path`"),
            _ => missing(),
        });
        let Ok(Reset::NotOffered(tried)) = asked(locked) else { panic!("slots cannot be erased") };
        assert!(tried.ends_with("POST /slots/0?action=erase: 501 Not Implemented Start it with `--slot-save-path`"));
        let pages = server(|_, _| answer("200 OK", "\n <!doctype html><title>Welcome</title>"));
        assert!(matches!(asked(pages), Ok(Reset::NotOffered(_))), "a page for people is no reset");
        let static_files = server(|_, request| {
            if request.starts_with("POST") {
                answer("405 Method Not Allowed", "")
            } else {
                answer("200 OK", "<html></html>")
            }
        });
        assert!(matches!(asked(static_files), Ok(Reset::NotOffered(_))));
    }

    #[test]
    fn an_engine_that_is_busy_for_a_moment_is_asked_again() {
        let vllm =
            server(|number, _| answer("200 OK", if number < 2 { "{\"success\":false}" } else { "{\"success\":true}" }));
        assert_eq!(asked(vllm), Ok(Reset::Done));
        let sglang = server(|number, request| match line(request).as_str() {
            "POST /flush_cache" if number < 2 => answer("400 Bad Request", "there are pending requests"),
            "POST /flush_cache" => answer("200 OK", "Cache flushed."),
            _ => missing(),
        });
        assert_eq!(asked(sglang), Ok(Reset::Done));
    }

    #[test]
    fn a_reset_that_fails_is_an_error_that_says_what_was_asked_and_what_to_do() {
        for (status, body, says) in [
            (
                "500 Internal Server Error",
                "boom\n\u{1b}[31m",
                "500 Internal Server Error boom \u{fffd}[31m, at 3 tries",
            ),
            ("200 OK", "{\"success\":false}", "200 OK {\"success\":false}, at 3 tries"),
            ("401 Unauthorized", "", "401 Unauthorized, at 3 tries"),
        ] {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let whole = answer(status, body);
            std::thread::spawn(move || {
                for mut stream in listener.incoming().flatten() {
                    let read = std::io::Read::read(&mut stream, &mut [0; 4_096]);
                    drop(read.and_then(|_| std::io::Write::write_all(&mut stream, whole.as_bytes())));
                }
            });
            let error = asked(address).unwrap_err();
            assert!(error.contains(&format!("did not reset its caches: POST /reset_prefix_cache: {says}")), "{error}");
            assert!(error.contains("use `caches: salted` in the workload"), "{error}");
        }
        let huge = server(|_, _| answer("200 OK", &"x".repeat(2 << 20)));
        assert!(asked(huge).unwrap_err().contains("larger than 1048576 bytes"));
        let endless = server(|_, request| match line(request).as_str() {
            "GET /props" => answer("200 OK", "{\"total_slots\":18446744073709551615}"),
            _ => missing(),
        });
        assert!(asked(endless).unwrap_err().contains("18446744073709551615 slots"));
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(asked(free).unwrap_err().contains("refused"));
    }

    #[test]
    fn a_server_that_never_answers_is_waited_for_no_longer_than_the_limit_and_an_interrupt_ends_it_at_once() {
        // It takes connections and stays silent.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let control = control(silent.local_addr().unwrap());
        let ended = |limit, flag| reset(&control, limit, &AtomicBool::new(flag)).unwrap_err();
        assert_eq!(
            ended(Nanos::from_millis(50), false).to_string(),
            "the server did not reset its caches: it gave no answer within 50 ms; see the deployment's log, or use `caches: \
             salted` in the workload"
        );
        assert!(matches!(ended(LIMIT, true), ControlError::Interrupted));
    }
}
