//! OpenTelemetry spans with the conventions for generative AI: a collection of flat spans, spans one a line, or OTLP JSON.
//! Spans that are no model call tell sessions and nesting only.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::trace::Input;
use crate::trace::collect::{Collector, Link, Numbers};
use crate::trace::faults::Kind;
use crate::trace::formats::Marks;
use crate::trace::formats::span::Span;
use crate::trace::items::{Cursor, Elements, Items, row};
use crate::trace::refused::Refused;
use crate::trace::request::Request;
use crate::trace::table::Wrong;

const FIELDS: &str = "spans, resourceSpans, or a span with attributes";
/// Spans between a model call and the one that names its session.
const MAX_DEPTH: usize = 100;

pub(super) const MARKS: Marks =
    Marks::Keys(&[&["resourceSpans"], &["spans"], &["span_id", "attributes"], &["spanId", "attributes"]]);

#[derive(Deserialize)]
struct Batch<'a> {
    #[serde(borrow, default)]
    spans: Option<Elements<'a>>,
    #[serde(borrow, default, rename = "resourceSpans")]
    resources: Option<Vec<Resource<'a>>>,
}

#[derive(Deserialize)]
struct Resource<'a> {
    #[serde(borrow, default, rename = "scopeSpans")]
    scopes: Vec<Scope<'a>>,
}

#[derive(Deserialize)]
struct Scope<'a> {
    #[serde(borrow, default)]
    spans: Elements<'a>,
}

/// A span that was met.
struct Met {
    line: u64,
    own: Option<u32>,
    parent: Option<u32>,
    session: Option<u32>,
    call: Option<Request>,
}

/// Names of the file as numbers.
#[derive(Default)]
struct Names {
    traces: Numbers<String>,
    spans: Numbers<(u32, String)>,
    sessions: Numbers<(bool, String)>,
}

pub(super) fn read(input: Input<'_>, collector: &mut Collector<'_>) -> Result<(), Refused> {
    let (mut names, mut met) = (Names::default(), Vec::new());
    Items::of(input)?.each(collector, |collector, line, text| {
        let batch: Batch<'_> = row(text, FIELDS)?;
        if batch.spans.is_none() && batch.resources.is_none() {
            met.push(span(collector, &mut names, line, text)?);
            return Ok(());
        }
        let scopes = batch.resources.into_iter().flatten().flat_map(|resource| resource.scopes);
        let lists = batch.spans.into_iter().chain(scopes.map(|scope| scope.spans));
        let spans: Vec<&str> = lists.flat_map(|list| list.0).map(RawValue::get).collect();
        let more = u64::try_from(spans.len()).unwrap_or(u64::MAX).saturating_sub(1);
        // The collector refuses in the end what is too much.
        if collector.rows(more).is_err() {
            return Ok(());
        }
        let mut cursor = Cursor { line, rest: text };
        for text in spans {
            let line = cursor.line_of(text);
            match span(collector, &mut names, line, text) {
                Ok(one) => met.push(one),
                Err((kind, field)) => collector.faults.add(kind, line, field),
            }
        }
        Ok(())
    })?;
    take(collector, met);
    Ok(())
}

fn span(collector: &mut Collector<'_>, names: &mut Names, line: u64, text: &str) -> Result<Met, Wrong> {
    let mut found: Span = row(text, FIELDS)?;
    let attributes = found.attributes();
    let trace = found.trace.take().unwrap_or_default();
    let number = names.traces.of(trace.clone());
    let given = |id: Option<String>| id.filter(|id| !id.is_empty());
    let own = given(found.id.take()).map(|id| names.spans.of((number, id)));
    let parent = given(found.parent.take()).map(|id| names.spans.of((number, id)));
    let session = attributes.session().map(|session| names.sessions.of((true, session.to_owned())));
    let mut met = Met { line, own, parent, session, call: None };
    if !attributes.is_call() {
        collector.faults.add(Kind::NotARequest, line, "");
        return Ok(met);
    }
    let (input, output) = (attributes.input(collector.count()), attributes.output(collector.count()));
    if found.failed() && output.is_none_or(|output| output.tokens == 0) {
        collector.faults.add(Kind::FailedRequest, line, "");
        return Ok(met);
    }
    let (Some(input), Some(output)) = (input, output) else {
        collector.faults.add(Kind::NoLength, line, "");
        return Ok(met);
    };
    if input.counted || output.counted {
        collector.faults.add(Kind::CountedLength, line, "");
    }
    if input.media || output.media {
        collector.faults.add(Kind::Media, line, "");
    }
    let of_trace = (!trace.is_empty()).then(|| names.sessions.of((false, trace)));
    met.call = Some(Request {
        at: found.start().ok_or((Kind::BadInstant, "start_time"))?,
        prompt_tokens: input.tokens,
        output_tokens: Some(output.tokens),
        session: of_trace,
        class: attributes.model().and_then(|model| collector.class(model, None)),
        ..Request::default()
    });
    Ok(met)
}

/// Gives the calls to the collector, each with the session that the nearest span around it names, and else with
/// that of its trace, and with the nearest call around it as its parent.
fn take(collector: &mut Collector<'_>, mut met: Vec<Met>) {
    let numbers = met.iter().enumerate().filter_map(|(index, span)| span.own.map(|own| (own, index)));
    let by_id: BTreeMap<u32, usize> = numbers.rev().collect();
    let above = |span: &Met| span.parent.and_then(|id| by_id.get(&id)).and_then(|index| met.get(*index));
    let mut placed = Vec::new();
    for span in &met {
        let around = || std::iter::successors(above(span), |span| above(span)).take(MAX_DEPTH);
        let session = span.session.or_else(|| around().find_map(|span| span.session));
        placed.push((session, around().find(|span| span.call.is_some()).and_then(|span| span.own)));
    }
    for (span, (session, parent)) in met.iter_mut().zip(placed) {
        if let Some(mut request) = span.call.take() {
            request.session = session.or(request.session);
            collector.request(span.line, request, Link { own: span.own, parent });
        }
    }
}
