//! The HTTP interfaces that servegate speaks; one file each, and one table.

mod answer;
mod body;
mod chunk;
mod decode;
mod openai_chat;
mod openai_completions;
#[cfg(test)]
mod tests;

use crate::base::names::Api;
use crate::wire::dialect::answer::{Answer, Problem};
pub use crate::wire::dialect::body::Template;

/// One HTTP interface: where requests go, how they carry a prompt, and how their streams are read.
#[derive(Clone, Copy)]
pub struct Dialect {
    path: &'static str,
    /// Body field of the prompt, and the JSON before and after the prompt's string in it.
    prompt: (&'static str, &'static str, &'static str),
    /// Reads the data of one event.
    read: fn(&mut Answer, &str) -> Result<(), Problem>,
}

/// The dialect of an interface.
pub const fn of(api: Api) -> Dialect {
    match api {
        Api::Chat => openai_chat::DIALECT,
        Api::Completions => openai_completions::DIALECT,
    }
}

impl Dialect {
    /// Path of the URL.
    pub const fn path(&self) -> &'static str {
        self.path
    }
}
