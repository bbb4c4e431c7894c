//! Traces of Splitwise's simulator (`request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,
//! token_size`, seconds). A row of a batch of several requests is as many requests.

use crate::trace::Input;
use crate::trace::collect::{Collector, Link};
use crate::trace::faults::Kind;
use crate::trace::formats::{Format, Marks};
use crate::trace::refused::Refused;
use crate::trace::request::Request;
use crate::trace::table::Table;

const AT: &str = "arrival_timestamp";
const PROMPT: &str = "prompt_size";
const OUTPUT: &str = "token_size";
const BATCH: &str = "batch_size";
const APPLICATION: &str = "application_id";
/// Requests of one row that are believed.
const MAX_BATCH: u32 = 1_000;

pub(super) const MARKS: Marks = Marks::Columns(&[AT, PROMPT, OUTPUT]);

pub(super) fn read(input: Input<'_>, collector: &mut Collector<'_>) -> Result<(), Refused> {
    let table = Table::open(input, Format::Splitwise);
    let (at, prompt, output) = (table.column(AT)?, table.column(PROMPT)?, table.column(OUTPUT)?);
    let (batch, application) = (table.optional(BATCH)?, table.optional(APPLICATION)?);
    table.each(collector, |collector, line, fields| {
        let size = batch.map_or(Ok(1), |batch| fields.tokens(batch))?;
        if size > MAX_BATCH {
            return Err((Kind::BadField, BATCH));
        }
        let request = Request {
            at: fields.seconds(at)?,
            prompt_tokens: fields.tokens(prompt)?,
            output_tokens: Some(fields.tokens(output)?),
            class: application.and_then(|application| collector.class(fields.text(application), None)),
            ..Request::default()
        };
        for _ in 0..size {
            collector.request(line, request.clone(), Link::default());
        }
        Ok(())
    })
}
