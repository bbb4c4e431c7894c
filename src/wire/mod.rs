//! Bytes that cross the network: request bodies, stream decoding per dialect, and the seam between
//! the load generator and whatever carries its requests. Nothing here opens a socket.

pub mod counters;
pub mod decoded;
pub mod dialect;
pub mod event;
mod excerpt;
pub mod exposition;
#[cfg(test)]
mod exposition_tests;
pub mod frames;
#[doc(hidden)]
pub mod fuzz;
mod hints;
pub mod lines;
pub mod sse;
pub mod tokenizer;
pub mod transport;

pub use hints::hint;
