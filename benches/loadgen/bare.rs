//! The least that a client can do: read the same bytes at the same pace from as many sockets, and nothing else.
//!
//! The same pace holds for the streams among each other: they start as far apart as a closed loop's first requests. Streams
//! that start together have their events together for ever, and one waking of the reader serves them all.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Command;
use std::time::Duration;

use servegate::loadgen::selfcheck::Case;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::meter::Meter;

/// Requests of a connection.
const ROUNDS: u32 = 4;

/// The first requests of a closed loop are so far apart, and all of them are sent within this time.
const STEP: Duration = Duration::from_millis(10);
const WITHIN: Duration = Duration::from_secs(2);

/// Processor time of a bare reader, in us an event.
pub(crate) fn processor_an_event(mut server: Command, case: Case) -> f64 {
    let mut server = server.spawn().unwrap();
    let mut log = BufReader::new(server.stdout.take().unwrap());
    let mut address = String::new();
    log.read_line(&mut address).unwrap();
    let address = address.trim().to_owned();
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let meter = Meter::start();
    runtime.block_on(async {
        let mut readers = JoinSet::new();
        for stream in 0..case.streams {
            let address = address.clone();
            let start = STEP.min(WITHIN / case.streams) * stream;
            readers.spawn(async move {
                sleep(start).await;
                read(&address, stream).await;
            });
        }
        readers.join_all().await;
    });
    let [_, cpu] = meter.stop();
    drop(server.stdin.take());
    let mut events = String::new();
    log.read_line(&mut events).unwrap();
    drop(log.read_to_end(&mut Vec::new()));
    server.wait().unwrap();
    cpu / events.trim().parse::<f64>().unwrap() * 1e6
}

async fn read(address: &str, stream: u32) {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let mut buffer = vec![0; 16 << 10];
    for round in 0..ROUNDS {
        let body = format!("{{\"seed\":{},\"max_tokens\":64}}", stream * ROUNDS + round);
        let request = format!("POST / HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        socket.write_all(request.as_bytes()).await.unwrap();
        loop {
            let read = socket.read(&mut buffer).await.unwrap();
            if read == 0 || buffer[..read].ends_with(b"\r\n0\r\n\r\n") {
                break;
            }
        }
    }
}
