//! A precise server for the measurement: it answers every request with a stream whose first event comes a fixed time
//! after the request was read and whose others follow at absolute instants, and it keeps the instant at which it wrote
//! each of them. It learns nothing from the client and tells it nothing before the end, so that the measured side does
//! no work of the measurement's own.

use std::collections::BTreeMap;
use std::io::{BufWriter, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::Builder;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The instant of the clock that all processes of the host share, in ns.
pub(crate) fn monotonic() -> u64 {
    let now = Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap();
    u64::try_from(now.as_nanos()).unwrap()
}

/// One answer on its way.
struct Answer {
    stream: Arc<TcpStream>,
    seed: u64,
    tokens: u32,
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

/// Serves until standard input ends, then prints a line for every whole answer: seed, instant of the reading, instants
/// of the events. The first line of all is the address; the first of the log is the number of all events.
pub(crate) fn serve(first: Duration, gap: Duration) {
    let [first, gap] = [first, gap].map(|time| u64::try_from(time.as_nanos()).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap());
    let shared = Arc::new(Shared::default());
    let sending = Arc::clone(&shared);
    spawn(move || send(&sending, gap));
    let accepting = Arc::clone(&shared);
    spawn(move || {
        for stream in listener.incoming() {
            let (shared, stream) = (Arc::clone(&accepting), stream.unwrap());
            stream.set_nodelay(true).unwrap();
            spawn(move || listen(&shared, &Arc::new(stream), first));
        }
    });
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    let waiting = shared.waiting.lock().unwrap();
    let finished = shared.finished.lock().unwrap();
    let events: usize = finished.iter().chain(waiting.values()).map(|answer| answer.sent.len()).sum();
    let mut out = BufWriter::new(std::io::stdout().lock());
    writeln!(out, "{events}").unwrap();
    for answer in finished.iter().filter(|answer| answer.sent.len() == to_usize(answer.tokens)) {
        write!(out, "{} {}", answer.seed, answer.read).unwrap();
        answer.sent.iter().for_each(|at| write!(out, " {at}").unwrap());
        writeln!(out).unwrap();
    }
    out.flush().unwrap();
}

fn spawn(body: impl FnOnce() + Send + 'static) {
    Builder::new().stack_size(128 << 10).spawn(body).unwrap();
}

fn to_usize(n: u32) -> usize {
    usize::try_from(n).unwrap()
}

/// Reads the requests of one connection.
fn listen(shared: &Shared, stream: &Arc<TcpStream>, first: u64) {
    while let Some(body) = request(stream) {
        let read = monotonic();
        let number = |key: &str| -> u64 {
            let rest = body.split(key).nth(1).unwrap();
            rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
        };
        let (seed, tokens) = (number("\"seed\":"), u32::try_from(number("\"max_tokens\":")).unwrap());
        let sent = Vec::with_capacity(to_usize(tokens));
        let answer = Answer { stream: Arc::clone(stream), seed, tokens, read, sent };
        shared.waiting.lock().unwrap().insert((read + first, seed), answer);
        shared.changed.notify_one();
    }
}

/// The body of the next request; none when the client has closed the connection.
fn request(mut stream: &TcpStream) -> Option<String> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 16 << 10]);
    loop {
        let text = str::from_utf8(&bytes).unwrap();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.to_ascii_lowercase().split("content-length: ").nth(1)?.split("\r\n").next()?.parse();
            if body.len() >= length.unwrap() {
                return Some(body.to_owned());
            }
        }
        match stream.read(&mut buffer) {
            Ok(read) if read > 0 => bytes.extend_from_slice(buffer.get(..read)?),
            _ => return None,
        }
    }
}

/// Writes every event when it is due, on one thread.
fn send(shared: &Shared, gap: u64) -> ! {
    let mut waiting = shared.waiting.lock().unwrap();
    loop {
        let left = waiting.first_key_value().map(|((due, _), _)| due.saturating_sub(monotonic()));
        match left {
            None => waiting = shared.changed.wait(waiting).unwrap(),
            Some(0) => {
                // The lock is kept: an answer is always in one of the two places when the log is printed.
                let ((due, seed), mut answer) = waiting.pop_first().unwrap();
                let event = event(&answer);
                answer.sent.push(monotonic());
                let whole = answer.sent.len() == to_usize(answer.tokens);
                let broken = (&*answer.stream).write_all(event.as_bytes()).is_err();
                if whole || broken {
                    shared.finished.lock().unwrap().push(answer);
                } else {
                    waiting.insert((due + gap, seed), answer);
                }
            }
            Some(left) => waiting = shared.changed.wait_timeout(waiting, Duration::from_nanos(left)).unwrap().0,
        }
    }
}

/// The next bytes of an answer: an event of the size that vLLM sends; head and end go with the first and the last.
fn event(answer: &Answer) -> String {
    let id = format!("cmpl-{:032x}", answer.seed);
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
    let last = answer.sent.len() + 1 == to_usize(answer.tokens);
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
