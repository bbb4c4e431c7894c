//! `servegate workload show`: the requests of a workload as they will be sent.

use std::iter;
use std::path::PathBuf;

use serde::Serialize;

use crate::cli::error::{CliError, Exit};
use crate::cli::files;
use crate::cli::terminal::Terminal;
use crate::cli::tokenizer;
use crate::plan::hit_rate::{BLOCK_TOKENS, HitRate};
use crate::plan::prompt;
use crate::plan::request::{PlannedCell, PlannedRequest};
use crate::spec::slice::Slice;
use crate::wire::tokenizer::Tokenizer;

/// Print every request of a workload: what is asked, when, and for how many tokens
///
/// One JSON object a line, in the order in which a cell sends them: the warm-up first. What servegate sends to hold the
/// load of a closed loop until its last measured request has ended is not among them. The hit rate that is expected of a
/// prefix cache is said on stderr (docs/prefixes.md).
///
/// Example: servegate workload show gate-policies/workloads/chat.yaml --cell c8
#[derive(clap::Args)]
pub(crate) struct ShowArgs {
    /// The workload
    #[arg(value_name = "FILE")]
    workload: PathBuf,

    /// Only this cell, with the phase unless it is the steady one [default: all]
    #[arg(long, value_name = "NAME")]
    cell: Option<String>,

    /// The target's tokenizer.json, for a workload with `prompts: exact`
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,

    /// Leave the warm-up out
    #[arg(long)]
    measured: bool,

    /// Tokens of a block of the server's prefix cache, for the hit rate that is expected of each cell; 1 for a cache of
    /// tokens
    #[arg(long, value_name = "N", default_value_t = BLOCK_TOKENS, value_parser = clap::value_parser!(u32).range(1..=65536))]
    block_tokens: u32,
}

/// A line.
#[derive(Serialize)]
struct Line<'a> {
    cell: &'a str,
    request: u32,
    warmup: bool,
    /// From the start of the cell or phase; absent in a closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    due_us: Option<u64>,
    prompt_tokens: u32,
    output_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_ids: Option<Vec<u32>>,
}

/// Prints the requests.
pub(crate) fn run(args: &ShowArgs, terminal: &mut Terminal) -> Result<Exit, CliError> {
    let (_, plan) = files::workload(&args.workload, terminal)?;
    let tokenizer = tokenizer::of_option(args.tokenizer.as_deref())?;
    let wanted = |cell: &&PlannedCell| args.cell.as_ref().is_none_or(|name| *name == cell.name);
    let mut cells = plan.cells.iter().filter(wanted).peekable();
    if cells.peek().is_none() {
        let names: Vec<&str> = plan.cells.iter().map(|cell| cell.name.as_str()).collect();
        return Err(CliError::usage(format!("{}: no such cell", args.workload.display()))
            .hint(format!("its cells are {}", names.join(", "))));
    }
    for cell in cells {
        let warmup = cell.warmup.iter().filter(|_| !args.measured).map(|request| (true, request));
        for (warmup, request) in warmup.chain(cell.requests.iter().map(|request| (false, request))) {
            terminal.data(&line(cell, warmup, request, tokenizer.as_ref())?)?;
        }
        for line in expected(cell, args.block_tokens) {
            terminal.say(&line);
        }
    }
    Ok(Exit::Success)
}

/// What a prefix cache is expected to find in the prompts of a cell, and of each class of it.
fn expected(cell: &PlannedCell, block_tokens: u32) -> Vec<String> {
    let class = |class: &str| Slice { class: Some(class.to_owned()), context: None };
    let parts = iter::once(Slice::default()).chain(cell.classes().into_iter().map(class));
    let told = |part: Slice| {
        let rate = HitRate::expected(cell, &part, block_tokens);
        format!(
            "{}: expected cache hit rate {:.1} %: {} of {} prompt tokens, {} of {} whole blocks of {block_tokens}",
            part.of(&cell.name),
            100.0 * rate.share(),
            rate.cached_tokens,
            rate.prompt_tokens,
            rate.cached_blocks,
            rate.blocks
        )
    };
    parts.map(told).collect()
}

fn line(
    cell: &PlannedCell,
    warmup: bool,
    request: &PlannedRequest,
    tokenizer: Option<&Tokenizer>,
) -> Result<Vec<u8>, CliError> {
    let prompt_ids = prompt::ids(&request.prompt);
    let text = match tokenizer {
        Some(tokenizer) => prompt::counted(&request.prompt, Some(&|text| tokenizer.count(text))),
        None => prompt::counted(&request.prompt, None),
    };
    if text.is_none() {
        let message = format!("request {} of cell `{}` has an exact length in tokens", request.number, cell.name);
        let hint = if tokenizer.is_some() {
            "no text of this length was found with this tokenizer; choose another `content`"
        } else {
            "name the model's tokenizer.json with --tokenizer"
        };
        return Err(CliError::usage(message).hint(hint));
    }
    let line = Line {
        cell: &cell.name,
        request: request.number,
        warmup,
        due_us: request.due.map(|due| due.to_stored_resolution().0.div_euclid(1_000)),
        prompt_tokens: request.prompt.words,
        output_tokens: request.output_tokens,
        prompt: text.filter(|_| prompt_ids.is_none()),
        prompt_ids,
    };
    let mut bytes = serde_json::to_vec(&line)
        .map_err(|error| CliError::failed(format!("cannot write a request as JSON: {error}")))?;
    bytes.push(b'\n');
    Ok(bytes)
}
