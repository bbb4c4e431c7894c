//! BurstGPT (`Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type`; the third release puts `Session ID` and
//! `Elapsed time` in front of `Model`). No response tokens are a failed request.

use crate::trace::Input;
use crate::trace::collect::{Collector, Link, Numbers};
use crate::trace::formats::{Format, Marks};
use crate::trace::refused::Refused;
use crate::trace::request::Request;
use crate::trace::table::Table;

const AT: &str = "Timestamp";
const PROMPT: &str = "Request tokens";
const OUTPUT: &str = "Response tokens";
const MODEL: &str = "Model";
const LOG: &str = "Log Type";
const SESSION: &str = "Session ID";

pub(super) const MARKS: Marks = Marks::Columns(&[AT, PROMPT, OUTPUT]);

pub(super) fn read(input: Input<'_>, collector: &mut Collector<'_>) -> Result<(), Refused> {
    let table = Table::open(input, Format::Burstgpt);
    let (at, prompt, output) = (table.column(AT)?, table.column(PROMPT)?, table.column(OUTPUT)?);
    let (model, log, session) = (table.optional(MODEL)?, table.optional(LOG)?, table.optional(SESSION)?);
    let mut sessions = Numbers::default();
    table.each(collector, |collector, line, fields| {
        let text = |column| Option::map_or(column, "", |column| fields.text(column));
        let kind = (text(model), text(log));
        let request = Request {
            at: fields.seconds(at)?,
            prompt_tokens: fields.tokens(prompt)?,
            output_tokens: Some(fields.tokens(output)?),
            session: Some(text(session)).filter(|name| !name.is_empty()).map(|name| sessions.of(name.to_owned())),
            class: (kind != ("", "")).then(|| class(collector, kind)).flatten(),
            ..Request::default()
        };
        collector.request(line, request, Link::default());
        Ok(())
    })
}

/// The model and the way of the call, where they are those of the published files.
fn class(collector: &mut Collector<'_>, (model, log): (&str, &str)) -> Option<u16> {
    let known = match model {
        "ChatGPT" => Some("chatgpt"),
        "GPT-4" => Some("gpt-4"),
        _ => None,
    };
    let way = match log {
        "Conversation log" => Some("conversation"),
        "API log" => Some("api"),
        _ => None,
    };
    let name = known.zip(way).map(|(model, way)| format!("{model}-{way}"));
    collector.class(&format!("{model}\n{log}"), name)
}
