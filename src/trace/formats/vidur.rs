//! Vidur's traces (`arrived_at,num_prefill_tokens,num_decode_tokens`, seconds); its traces of lengths alone have no instants.

use crate::base::units::Nanos;
use crate::trace::Input;
use crate::trace::collect::{Collector, Link};
use crate::trace::formats::{Format, Marks};
use crate::trace::refused::Refused;
use crate::trace::request::Request;
use crate::trace::table::Table;

const AT: &str = "arrived_at";
const PROMPT: &str = "num_prefill_tokens";
const OUTPUT: &str = "num_decode_tokens";

pub(super) const MARKS: Marks = Marks::Columns(&[PROMPT, OUTPUT]);

pub(super) fn read(input: Input<'_>, collector: &mut Collector<'_>) -> Result<(), Refused> {
    let table = Table::open(input, Format::Vidur);
    let (at, prompt, output) = (table.optional(AT)?, table.column(PROMPT)?, table.column(OUTPUT)?);
    collector.arrivals = at.is_some();
    table.each(collector, |collector, line, fields| {
        let request = Request {
            at: at.map_or(Ok(Nanos::ZERO), |at| fields.seconds(at))?,
            prompt_tokens: fields.tokens(prompt)?,
            output_tokens: Some(fields.tokens(output)?),
            ..Request::default()
        };
        collector.request(line, request, Link::default());
        Ok(())
    })
}
