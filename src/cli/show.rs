//! `servegate workload show`: the requests of a workload as they will be sent.

use std::path::PathBuf;

use serde::Serialize;

use crate::base::units::Nanos;
use crate::cli::error::{CliError, Exit};
use crate::cli::files;
use crate::cli::terminal::Terminal;
use crate::cli::tokenizer;
use crate::plan::prompt;
use crate::plan::request::{PlannedCell, PlannedRequest, PromptRecipe};
use crate::wire::tokenizer::Tokenizer;

/// Print every request of a workload: what is asked, when, and for how many tokens
///
/// One JSON object a line, in the order in which a cell sends them: the warm-up first. What servegate sends to hold the
/// load of a closed loop until its last measured request has ended is not among them.
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
    /// The place in its session, and what it waits for: an answer, and then a pause.
    #[serde(skip_serializing_if = "Option::is_none", flatten)]
    turn: Option<InSession>,
    prompt_tokens: u32,
    output_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_ids: Option<Vec<u32>>,
    /// What a conversation says, where it is sent as messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<Vec<Words>>,
}

/// Where a request stands in its session.
#[derive(Serialize)]
struct InSession {
    session: u32,
    turn: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pause_us: Option<u64>,
}

/// A message.
#[derive(Serialize)]
struct Words {
    by: &'static str,
    text: String,
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
    }
    Ok(Exit::Success)
}

fn line(
    cell: &PlannedCell,
    warmup: bool,
    request: &PlannedRequest,
    tokenizer: Option<&Tokenizer>,
) -> Result<Vec<u8>, CliError> {
    let prompt_ids = prompt::ids(&request.prompt);
    let counted = |recipe: &PromptRecipe| match tokenizer {
        Some(tokenizer) => prompt::counted(recipe, Some(&|text| tokenizer.count(text))),
        None => prompt::counted(recipe, None),
    };
    let talk = cell.talk.filter(|_| prompt_ids.is_none());
    let recipes: Vec<PromptRecipe> =
        if talk.is_some() { request.prompt.apart().collect() } else { vec![request.prompt.clone()] };
    let texts: Option<Vec<String>> = recipes.iter().map(counted).collect();
    let Some(texts) = texts else {
        let message = format!("request {} of cell `{}` has an exact length in tokens", request.number, cell.name);
        let hint = if tokenizer.is_some() {
            "no text of this length was found with this tokenizer; choose another `content`"
        } else {
            "name the model's tokenizer.json with --tokenizer"
        };
        return Err(CliError::usage(message).hint(hint));
    };
    let (prompt, messages) = match talk {
        Some(talk) => {
            let words = |(place, text)| Words { by: talk.speaker(place).id(), text };
            (None, Some(texts.into_iter().enumerate().map(words).collect()))
        }
        None => (texts.into_iter().next().filter(|_| prompt_ids.is_none()), None),
    };
    let micros = |time: Nanos| time.to_stored_resolution().0.div_euclid(1_000);
    let line = Line {
        cell: &cell.name,
        request: request.number,
        warmup,
        due_us: request.due.map(micros),
        turn: request.turn.map(|turn| InSession {
            session: turn.session,
            turn: turn.turn,
            after: turn.after,
            pause_us: turn.after.map(|_| micros(turn.pause)),
        }),
        prompt_tokens: request.prompt.words,
        output_tokens: request.output_tokens,
        prompt,
        prompt_ids,
        messages,
    };
    let mut bytes = serde_json::to_vec(&line)
        .map_err(|error| CliError::failed(format!("cannot write a request as JSON: {error}")))?;
    bytes.push(b'\n');
    Ok(bytes)
}
