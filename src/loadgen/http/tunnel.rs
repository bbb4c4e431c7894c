//! A tunnel through a proxy: `CONNECT` (RFC 9110, 9.3.6). Inside it everything is as without a proxy, TLS and stamps
//! included; only the way is longer.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::loadgen::http::error::cause;
use crate::wire::transport::Failure;

/// A proxy's answer is a status line and some headers.
const LONGEST_ANSWER: usize = 8 << 10;

/// Asks the proxy at the other end of `stream` for a connection to `host:port`.
pub(super) async fn open(stream: &mut TcpStream, authority: &str) -> Result<(), Failure> {
    let refused = |what: &str| Failure::Connect(format!("the proxy gives no tunnel to {authority}: {what}"));
    let request = format!("CONNECT {authority} HTTP/1.1\r\nhost: {authority}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.map_err(|error| refused(&cause(&error)))?;
    let mut answer = Vec::new();
    // Byte by byte: what follows the head belongs to the tunnel.
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() >= LONGEST_ANSWER {
            return Err(refused("its answer has no end"));
        }
        answer.push(stream.read_u8().await.map_err(|error| refused(&cause(&error)))?);
    }
    let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line: String = String::from_utf8_lossy(line).chars().filter(|c| !c.is_control()).take(120).collect();
    let accepted = line.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..3)) == Some("2");
    if accepted { Ok(()) } else { Err(refused(&line)) }
}
