//! A precise server: it answers every request with a stream whose first event comes a fixed time after the request was
//! read and whose others follow at absolute instants, and it keeps the instant at which it wrote each of them. It learns
//! nothing from the client and tells it nothing before the end, so that the measured side does no work of the
//! measurement's own.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use serde_json::Value;

use crate::loadgen::selfcheck::clock::monotonic;

/// Ten thousand connections have a thread each.
const STACK: usize = 64 << 10;
/// The answer to every GET.
const MODELS: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 54\r\n\r\n\
                      {\"object\":\"list\",\"data\":[{\"id\":\"m\",\"object\":\"model\"}]}";
/// Longest head and body of a request.
const LONGEST_REQUEST: usize = 1 << 20;

/// One answer on its way.
struct Answer {
    stream: Arc<TcpStream>,
    seed: u64,
    tokens: usize,
    /// When the request had been read.
    read: u64,
    /// When each event was handed to the socket.
    sent: Vec<u64>,
}

#[derive(Default)]
struct Shared {
    /// By the instant of their next event.
    waiting: Mutex<BTreeMap<(u64, u64), Answer>>,
    changed: Condvar,
    finished: Mutex<Vec<Answer>>,
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, BTreeMap<(u64, u64), Answer>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finished(&self) -> MutexGuard<'_, Vec<Answer>> {
        self.finished.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves on a free port of the loopback interface until `input` ends, then writes a line for every whole answer: seed,
/// instant of the reading, instants of the events. The first line of all is the address; the first of the log is the
/// number of all events. Instants are nanoseconds of the clock that all processes of the host share.
///
/// # Errors
/// Sockets, threads or `output` cannot be used.
pub fn serve(first: Duration, gap: Duration, input: &mut impl Read, output: impl Write) -> io::Result<()> {
    let [first, gap] = [first, gap].map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut out = BufWriter::new(output);
    writeln!(out, "{}", listener.local_addr()?)?;
    out.flush()?;
    let shared = Arc::new(Shared::default());
    let sending = Arc::clone(&shared);
    Builder::new().spawn(move || send(&sending, gap))?;
    let accepting = Arc::clone(&shared);
    Builder::new().spawn(move || {
        for stream in listener.incoming().flatten() {
            let shared = Arc::clone(&accepting);
            let served = Builder::new().stack_size(STACK).spawn(move || listen(&shared, stream, first));
            if let Err(error) = served {
                tracing::warn!("a connection could not be served: {error}");
            }
        }
    })?;
    input.read_to_end(&mut Vec::new())?;
    // In this order an answer is in one of the two places.
    let (waiting, finished) = (shared.waiting(), shared.finished());
    let events: usize = finished.iter().chain(waiting.values()).map(|answer| answer.sent.len()).sum();
    writeln!(out, "{events}")?;
    for answer in finished.iter().filter(|answer| answer.sent.len() == answer.tokens) {
        write!(out, "{} {}", answer.seed, answer.read)?;
        answer.sent.iter().try_for_each(|at| write!(out, " {at}"))?;
        writeln!(out)?;
    }
    out.flush()
}

/// Reads the requests of one connection.
fn listen(shared: &Shared, stream: TcpStream, first: u64) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::warn!("small writes may wait: {error}");
    }
    let stream = Arc::new(stream);
    while let Some(request) = request(&stream) {
        let read = monotonic();
        let body = match request {
            Request::Answer(body) => body,
            Request::Models if (&*stream).write_all(MODELS.as_bytes()).is_ok() => continue,
            Request::Models => return,
        };
        let number = |key: &str| body.get(key).and_then(Value::as_u64);
        let Some(tokens) = number("max_tokens") else { return };
        // Without a seed an answer cannot be found in the log, and is given all the same.
        let seed = number("seed").unwrap_or(read);
        let tokens = usize::try_from(tokens).unwrap_or(1).clamp(1, 1 << 20);
        let answer = Answer { stream: Arc::clone(&stream), seed, tokens, read, sent: Vec::with_capacity(tokens) };
        shared.waiting().insert((read.saturating_add(first), seed), answer);
        shared.changed.notify_one();
    }
}

/// What a client asks for.
enum Request {
    /// The list of models: other clients ask for it before they begin.
    Models,
    /// An answer, by the body of the request.
    Answer(Value),
}

/// The next request; none when the client has closed the connection.
fn request(mut stream: &TcpStream) -> Option<Request> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 16 << 10]);
    while bytes.len() < LONGEST_REQUEST {
        let text = str::from_utf8(&bytes).ok()?;
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
            });
            if head.starts_with("GET ") {
                return Some(Request::Models);
            }
            if length.is_some_and(|length| body.len() >= length) {
                return serde_json::from_str(body).ok().map(Request::Answer);
            }
        }
        let read = stream.read(&mut buffer).ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(buffer.get(..read)?);
    }
    None
}

/// Writes every event when it is due, on one thread, as long as the process lives.
fn send(shared: &Shared, gap: u64) -> ! {
    let mut waiting = shared.waiting();
    loop {
        let left = waiting.first_key_value().map(|((due, _), _)| due.saturating_sub(monotonic()));
        waiting = match left {
            None => shared.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner),
            Some(0) => {
                // The lock is kept: an answer is always in one of the two places when the log is written.
                if let Some(((due, seed), mut answer)) = waiting.pop_first() {
                    let event = event(&answer);
                    answer.sent.push(monotonic());
                    let broken = (&*answer.stream).write_all(event.as_bytes()).is_err();
                    if broken || answer.sent.len() == answer.tokens {
                        shared.finished().push(answer);
                    } else {
                        waiting.insert((due.saturating_add(gap), seed), answer);
                    }
                }
                waiting
            }
            Some(left) => {
                let woken = shared.changed.wait_timeout(waiting, Duration::from_nanos(left));
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
        };
    }
}

/// The next bytes of an answer: an event of the size that vLLM sends; head and end go with the first and the last.
fn event(answer: &Answer) -> String {
    let id = format!("cmpl-{:032x}", answer.seed);
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
    let last = answer.sent.len() + 1 == answer.tokens;
    let finish = if last { "\"length\"" } else { "null" };
    let mut data = format!(
        "data: {{\"id\":\"{id}\",\"object\":\"text_completion\",\"created\":1700000000,\"model\":\"m\",\"choices\":\
         [{{\"index\":0,\"text\":\" word\",\"logprobs\":null,\"finish_reason\":{finish},\"stop_reason\":null}}]}}\n\n"
    );
    if last {
        let usage = format!(
            "data: {{\"id\":\"{id}\",\"object\":\"text_completion\",\"created\":1700000000,\"model\":\"m\",\"choices\":\
             [],\"usage\":{{\"prompt_tokens\":16,\"total_tokens\":{},\"completion_tokens\":{}}}}}\n\ndata: [DONE]\n\n",
            16 + answer.tokens,
            answer.tokens
        );
        data.push_str(&usage);
    }
    let end = if last { "0\r\n\r\n" } else { "" };
    let head = if answer.sent.is_empty() { head } else { "" };
    format!("{head}{:x}\r\n{data}\r\n{end}", data.len())
}
