//! Azure LLM inference traces (`TIMESTAMP,ContextTokens,GeneratedTokens`): 2023 with seven digits of a second and CRLF,
//! 2024 with a zone.

use crate::trace::Input;
use crate::trace::collect::{Collector, Link};
use crate::trace::formats::{Format, Marks};
use crate::trace::refused::Refused;
use crate::trace::request::Request;
use crate::trace::table::Table;

const AT: &str = "TIMESTAMP";
const PROMPT: &str = "ContextTokens";
const OUTPUT: &str = "GeneratedTokens";

pub(super) const MARKS: Marks = Marks::Columns(&[AT, PROMPT, OUTPUT]);

pub(super) fn read(input: Input<'_>, collector: &mut Collector<'_>) -> Result<(), Refused> {
    let table = Table::open(input, Format::Azure);
    let (at, prompt, output) = (table.column(AT)?, table.column(PROMPT)?, table.column(OUTPUT)?);
    table.each(collector, |collector, line, fields| {
        let request = Request {
            at: fields.date(at)?,
            prompt_tokens: fields.tokens(prompt)?,
            output_tokens: Some(fields.tokens(output)?),
            ..Request::default()
        };
        collector.request(line, request, Link::default());
        Ok(())
    })
}
