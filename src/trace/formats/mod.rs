//! The formats: one file and one line of the table each.

mod azure;
mod bailian;
mod burstgpt;
mod mooncake;
mod openai_batch;
mod otel;
mod servegate;
mod servegen;
mod sharegpt;
mod span;
mod splitwise;
mod vidur;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::trace::Input;
use crate::trace::collect::Collector;
use crate::trace::refused::Refused;

/// A format of traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Azure LLM inference traces of 2023 and 2024.
    Azure,
    /// Mooncake: hashes of 512-token blocks.
    Mooncake,
    /// BurstGPT, with or without sessions.
    Burstgpt,
    /// Qwen-Bailian: sessions, and hashes of 16-token blocks.
    Bailian,
    /// ServeGen: windows of rates.
    Servegen,
    /// Vidur.
    Vidur,
    /// Splitwise's simulator.
    Splitwise,
    /// ShareGPT conversations.
    Sharegpt,
    /// The input of OpenAI's batch interface.
    OpenaiBatch,
    /// OpenTelemetry spans with the conventions for generative AI.
    Otel,
    /// The normal form of servegate.
    Servegate,
}

/// By what a format is known.
#[derive(Clone, Copy)]
pub(super) enum Marks {
    /// Columns that the first line names.
    Columns(&'static [&'static str]),
    /// The fields of the first line fit, for the format has no names; with the reason in words.
    Headless(fn(&[String]) -> bool, &'static str),
    /// Keys of a row, in one of several ways.
    Keys(&'static [&'static [&'static str]]),
    /// A key of the first row alone.
    FirstKey(&'static str),
}

/// How a format is read.
struct Entry {
    name: &'static str,
    marks: Marks,
    read: fn(Input<'_>, &mut Collector<'_>) -> Result<(), Refused>,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 11] = [
        Self::Azure,
        Self::Mooncake,
        Self::Burstgpt,
        Self::Bailian,
        Self::Servegen,
        Self::Vidur,
        Self::Splitwise,
        Self::Sharegpt,
        Self::OpenaiBatch,
        Self::Otel,
        Self::Servegate,
    ];

    const fn entry(self) -> Entry {
        match self {
            Self::Azure => Entry { name: "azure", marks: azure::MARKS, read: azure::read },
            Self::Mooncake => Entry { name: "mooncake", marks: mooncake::MARKS, read: mooncake::read },
            Self::Burstgpt => Entry { name: "burstgpt", marks: burstgpt::MARKS, read: burstgpt::read },
            Self::Bailian => Entry { name: "bailian", marks: bailian::MARKS, read: bailian::read },
            Self::Servegen => Entry { name: "servegen", marks: servegen::MARKS, read: servegen::read },
            Self::Vidur => Entry { name: "vidur", marks: vidur::MARKS, read: vidur::read },
            Self::Splitwise => Entry { name: "splitwise", marks: splitwise::MARKS, read: splitwise::read },
            Self::Sharegpt => Entry { name: "sharegpt", marks: sharegpt::MARKS, read: sharegpt::read },
            Self::OpenaiBatch => Entry { name: "openai-batch", marks: openai_batch::MARKS, read: openai_batch::read },
            Self::Otel => Entry { name: "otel", marks: otel::MARKS, read: otel::read },
            Self::Servegate => Entry { name: "servegate", marks: servegate::MARKS, read: servegate::read },
        }
    }

    /// Its name, as `--format` takes it.
    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    pub(super) const fn marks(self) -> Marks {
        self.entry().marks
    }

    pub(super) fn read(self, input: Input<'_>, collector: &mut Collector<'_>) -> Result<(), Refused> {
        (self.entry().read)(input, collector)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No format has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a format of traces; known are {}", Format::ALL.map(Format::name).join(", "))]
pub struct UnknownFormat;

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        Self::ALL.into_iter().find(|format| format.name() == name).ok_or(UnknownFormat)
    }
}
