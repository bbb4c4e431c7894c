//! The body of an answer: it turns the engine's signals into bytes when hyper asks for them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};

use crate::sim::server::pace::{Signal, Ticket};
use crate::sim::voice::{Next, Speech};

/// An answer under way, or a text that is complete.
pub(super) enum Answer {
    /// Sent as it is.
    Text(Option<Bytes>),
    /// Spoken token by token.
    Spoken(Box<Spoken>),
}

/// An answer that follows the engine. Dropping it, as hyper does when the client leaves, cancels the request.
pub(super) struct Spoken {
    speech: Speech,
    ticket: Ticket,
    /// What the engine said first; it decided the status.
    first: Option<Signal>,
    state: Next,
    /// Whether hyper had its chance to flush before the connection is cut: it flushes on a pending body.
    flushed: bool,
}

impl Spoken {
    pub(super) const fn new(speech: Speech, ticket: Ticket, first: Signal) -> Self {
        Self { speech, ticket, first: Some(first), state: Next::More, flushed: false }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let mut out = Vec::new();
        while self.state == Next::More && out.is_empty() {
            let signal = match self.first.take() {
                Some(first) => Some(first),
                None => std::task::ready!(self.ticket.signals.poll_recv(context)),
            };
            self.state = match signal {
                Some(Signal::Token { last, cached }) => {
                    self.speech.cached(cached);
                    self.speech.token(last, &mut out)
                }
                Some(Signal::Rejected) | None => Next::Cut,
            };
        }
        if !out.is_empty() {
            return Poll::Ready(Some(Ok(out.into())));
        }
        match self.state {
            Next::More | Next::Silent => Poll::Pending,
            Next::Done => Poll::Ready(None),
            Next::Cut if !self.flushed => {
                self.flushed = true;
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Next::Cut => Poll::Ready(Some(Err(io::ErrorKind::ConnectionReset.into()))),
            Next::Flood => {
                self.speech.flood(&mut out);
                Poll::Ready(Some(Ok(out.into())))
            }
        }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match self.get_mut() {
            Self::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Self::Spoken(spoken) => spoken.poll(context).map(|bytes| bytes.map(|bytes| bytes.map(Frame::data))),
        }
    }
}
