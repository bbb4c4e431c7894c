//! Reading a socket together with the kernel's receive stamp, where there is one.

use std::io;
use std::task::{Context, Poll, ready};

use tokio::io::ReadBuf;
use tokio::net::TcpStream;

/// What one read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Received {
    /// Bytes; none at the end of the stream.
    pub(super) bytes: usize,
    /// When the kernel had the last of them, in ns since 1970.
    pub(super) kernel: Option<i64>,
}

#[cfg(target_os = "linux")]
pub(super) use linux::Receiver;
#[cfg(not(target_os = "linux"))]
pub(super) use plain::Receiver;

#[cfg(target_os = "linux")]
mod linux {
    use std::cell::RefCell;
    use std::io::IoSliceMut;
    use std::os::fd::AsRawFd as _;

    use nix::cmsg_space;
    use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt::ReceiveTimestampns};
    use nix::sys::time::TimeSpec;
    use tokio::io::Interest;

    use super::{Context, Poll, ReadBuf, Received, TcpStream, io, ready};

    /// Room that is offered to one read.
    const ROOM: usize = 16 << 10;

    thread_local! {
        /// Where a read lands before its reader gets it: copying a stream's event costs less than zeroing the room that
        /// the reader offers.
        static LANDING: RefCell<[u8; ROOM]> = const { RefCell::new([0; ROOM]) };
    }

    /// Reads one socket.
    pub(in crate::loadgen::http) struct Receiver {
        /// Room for the stamp.
        control: Vec<u8>,
    }

    impl Receiver {
        /// Asks the kernel for stamps. Where it has none the reads come without.
        pub(in crate::loadgen::http) fn of(stream: &TcpStream) -> Self {
            if let Err(error) = setsockopt(stream, ReceiveTimestampns, &true) {
                tracing::warn!("the kernel gives no receive stamps: {error}");
            }
            Self { control: cmsg_space!(TimeSpec) }
        }

        pub(in crate::loadgen::http) fn poll(
            &mut self,
            stream: &TcpStream,
            cx: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<Received>> {
            loop {
                ready!(stream.poll_read_ready(cx))?;
                let (mut received, room) = (None, buf.remaining().min(ROOM));
                let tried = stream.try_io(Interest::READABLE, || {
                    let Received { bytes, .. } = *received.insert(self.receive(stream, buf, room)?);
                    // A read that did not fill its room has emptied the socket: saying so now saves the system call
                    // that would find it out. What arrives meanwhile raises the readiness anew.
                    if bytes < room { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
                });
                match (received, tried) {
                    (Some(received), _) => return Poll::Ready(Ok(received)),
                    (None, Err(error)) if error.kind() != io::ErrorKind::WouldBlock => return Poll::Ready(Err(error)),
                    (None, _) => {}
                }
            }
        }

        fn receive(&mut self, stream: &TcpStream, buf: &mut ReadBuf<'_>, room: usize) -> io::Result<Received> {
            LANDING.with_borrow_mut(|landing| {
                let landing = landing.get_mut(..room).unwrap_or_default();
                let mut slices = [IoSliceMut::new(landing)];
                let message =
                    recvmsg::<()>(stream.as_raw_fd(), &mut slices, Some(&mut self.control), MsgFlags::empty())?;
                let bytes = message.bytes;
                // A stream has one stamp a read; truncated control data only means that there is none.
                let stamp = message.cmsgs().ok().and_then(|mut all| {
                    all.find_map(|one| if let ControlMessageOwned::ScmTimestampns(at) = one { Some(at) } else { None })
                });
                buf.put_slice(landing.get(..bytes).unwrap_or_default());
                Ok(Received { bytes, kernel: stamp.map(nanoseconds) })
            })
        }
    }

    fn nanoseconds(at: TimeSpec) -> i64 {
        at.tv_sec().saturating_mul(1_000_000_000).saturating_add(at.tv_nsec())
    }
}

#[cfg(not(target_os = "linux"))]
mod plain {
    use std::pin::Pin;

    use tokio::io::AsyncRead as _;

    use super::{Context, Poll, ReadBuf, Received, TcpStream, io, ready};

    /// Reads one socket; this system has no receive stamps for streams.
    pub(in crate::loadgen::http) struct Receiver;

    impl Receiver {
        pub(in crate::loadgen::http) fn of(_: &TcpStream) -> Self {
            Self
        }

        pub(in crate::loadgen::http) fn poll(
            &mut self,
            stream: &mut TcpStream,
            cx: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<Received>> {
            let before = buf.filled().len();
            ready!(Pin::new(stream).poll_read(cx, buf))?;
            Poll::Ready(Ok(Received { bytes: buf.filled().len().saturating_sub(before), kernel: None }))
        }
    }
}
