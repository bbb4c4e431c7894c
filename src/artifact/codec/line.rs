//! One line of the records: a record as a JSON object whose keys carry their units.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::artifact::codec::quoted;
use crate::artifact::record::{Chunk, Doubt, Outcome, Record, TokenSource};
use crate::base::digest::ShortDigest;
use crate::base::units::Nanos;

/// Longest cell name, in bytes.
const MAX_CELL: usize = 128;
/// Longest name of a class, in bytes.
const MAX_CLASS: usize = 64;
/// Longest finish reason, in bytes.
const MAX_FINISH: usize = 64;
/// Longest detail of a failure, in bytes.
const MAX_DETAIL: usize = 1_024;

/// The first line: what the file is. It stays readable for every version, so it may grow keys.
#[derive(Serialize, Deserialize)]
pub(super) struct Header {
    /// Version of the format.
    pub(super) servegate_records: u32,
}

/// A record on disk. Instants in whole microseconds of the run.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line<'a> {
    cell: Cow<'a, str>,
    request: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    class: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    turn: Option<u32>,
    due_us: u64,
    sent_us: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    connect_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tls_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    head_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first_byte_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first_answer_us: Option<u64>,
    /// From each chunk to the one before it; the first from `due_us`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    gaps_us: Vec<u64>,
    /// Absent: every chunk is one token. Empty: unknown for every chunk. Else one entry a chunk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chunk_tokens: Option<Vec<Option<u32>>>,
    /// Absent: as many as chunks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reads: Option<u32>,
    end_us: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prompt_tokens: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cached_tokens: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output_tokens: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reasoning_tokens: Option<u32>,
    tokens_from: TokenSource,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    doubt: Option<Doubt>,
    #[serde(default, skip_serializing_if = "is_zero")]
    text_bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text_digest: Option<ShortDigest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    finish: Option<Cow<'a, str>>,
    outcome: Outcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    detail: Option<Cow<'a, str>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

impl<'a> From<&'a Record> for Line<'a> {
    fn from(record: &'a Record) -> Self {
        let mut before = micros(record.due);
        let gaps_us = record
            .chunks
            .iter()
            .map(|chunk| {
                let at = micros(chunk.at);
                at.saturating_sub(std::mem::replace(&mut before, at))
            })
            .collect();
        let chunk_tokens = if record.chunks.iter().all(|chunk| chunk.tokens == Some(1)) {
            None
        } else if record.chunks.iter().all(|chunk| chunk.tokens.is_none()) {
            Some(Vec::new())
        } else {
            Some(record.chunks.iter().map(|chunk| chunk.tokens).collect())
        };
        Self {
            cell: Cow::Borrowed(&record.cell),
            request: record.request,
            class: record.class.as_deref().map(Cow::Borrowed),
            turn: record.turn,
            due_us: micros(record.due),
            sent_us: micros(record.sent),
            connect_us: record.connect.map(micros),
            tls_us: record.tls.map(micros),
            head_us: record.head.map(micros),
            first_byte_us: record.first_byte.map(micros),
            first_answer_us: record.first_answer.map(micros),
            gaps_us,
            chunk_tokens,
            reads: Some(record.reads).filter(|reads| *reads != count(&record.chunks)),
            end_us: micros(record.end),
            prompt_tokens: record.prompt_tokens,
            cached_tokens: record.cached_tokens,
            output_tokens: record.output_tokens,
            reasoning_tokens: record.reasoning_tokens,
            tokens_from: record.tokens_from,
            doubt: record.doubt,
            text_bytes: record.text_bytes,
            text_digest: record.text_digest,
            finish: record.finish.as_deref().map(Cow::Borrowed),
            outcome: record.outcome,
            detail: record.detail.as_deref().map(Cow::Borrowed),
        }
    }
}

impl Line<'_> {
    /// The record of this line.
    ///
    /// # Errors
    ///
    /// The rule that the line breaks.
    pub(super) fn into_record(self) -> Result<Record, String> {
        let tokens = match self.chunk_tokens {
            None => vec![Some(1); self.gaps_us.len()],
            Some(tokens) if tokens.is_empty() => vec![None; self.gaps_us.len()],
            Some(tokens) if tokens.len() == self.gaps_us.len() => tokens,
            Some(tokens) => {
                let (tokens, gaps) = (tokens.len(), self.gaps_us.len());
                return Err(format!("`chunk_tokens` has {tokens} entries and `gaps_us` has {gaps}"));
            }
        };
        let mut at = self.due_us;
        let mut chunks = Vec::with_capacity(tokens.len());
        for (gap, tokens) in self.gaps_us.into_iter().zip(tokens) {
            at = at.checked_add(gap).ok_or("`gaps_us` leads beyond the largest instant")?;
            chunks.push(Chunk { at: instant("gaps_us", at)?, tokens });
        }
        let record = Record {
            cell: self.cell.into_owned(),
            request: self.request,
            class: self.class.map(Cow::into_owned),
            turn: self.turn,
            due: instant("due_us", self.due_us)?,
            sent: instant("sent_us", self.sent_us)?,
            connect: self.connect_us.map(|us| instant("connect_us", us)).transpose()?,
            tls: self.tls_us.map(|us| instant("tls_us", us)).transpose()?,
            head: self.head_us.map(|us| instant("head_us", us)).transpose()?,
            first_byte: self.first_byte_us.map(|us| instant("first_byte_us", us)).transpose()?,
            first_answer: self.first_answer_us.map(|us| instant("first_answer_us", us)).transpose()?,
            reads: self.reads.unwrap_or_else(|| count(&chunks)),
            chunks,
            end: instant("end_us", self.end_us)?,
            prompt_tokens: self.prompt_tokens,
            cached_tokens: self.cached_tokens,
            output_tokens: self.output_tokens,
            reasoning_tokens: self.reasoning_tokens,
            tokens_from: self.tokens_from,
            doubt: self.doubt,
            text_bytes: self.text_bytes,
            text_digest: self.text_digest,
            finish: self.finish.map(Cow::into_owned),
            outcome: self.outcome,
            detail: self.detail.map(Cow::into_owned),
        };
        check(&record)?;
        Ok(record)
    }
}

/// Most streams have a read for every chunk.
fn count(chunks: &[Chunk]) -> u32 {
    u32::try_from(chunks.len()).unwrap_or(u32::MAX)
}

/// What every stored record obeys, whoever made it.
///
/// # Errors
///
/// The rule that is broken.
pub(super) fn check(record: &Record) -> Result<(), String> {
    text("cell", &record.cell, MAX_CELL)?;
    if record.cell.is_empty() {
        return Err("`cell` is empty".to_owned());
    }
    if let Some(class) = &record.class {
        text("class", class, MAX_CLASS)?;
        if class.is_empty() {
            return Err("`class` is empty".to_owned());
        }
    }
    record.finish.as_deref().map_or(Ok(()), |finish| text("finish", finish, MAX_FINISH))?;
    record.detail.as_deref().map_or(Ok(()), |detail| text("detail", detail, MAX_DETAIL))?;
    if record.text_digest.is_some() && record.text_bytes == 0 {
        return Err("`text_digest` is there and `text_bytes` is not".to_owned());
    }

    let mut before = ("due", record.due);
    let steps = [("sent", Some(record.sent)), ("head", record.head), ("first_byte", record.first_byte)];
    let steps = steps.into_iter().filter_map(|(name, at)| at.map(|at| (name, at)));
    let chunks = record.chunks.iter().map(|chunk| ("chunk", chunk.at));
    whole("due", record.due)?;
    for (name, time) in [("connect", record.connect), ("tls", record.tls)] {
        time.map_or(Ok(()), |time| whole(name, time))?;
    }
    for (name, at) in steps.chain(chunks).chain([("end", record.end)]) {
        whole(name, at)?;
        if at < before.1 {
            return Err(format!("`{name}` is earlier than `{}`: a clock fault", before.0));
        }
        before = (name, at);
    }
    match (record.first_answer, record.first_content(), record.last_content()) {
        (None, _, _) => Ok(()),
        (Some(answer), Some(first), Some(last)) if (first..=last).contains(&answer) => whole("first_answer", answer),
        (Some(_), _, _) => Err("`first_answer` is not among the chunks".to_owned()),
    }
}

fn text(key: &str, value: &str, limit: usize) -> Result<(), String> {
    if value.len() > limit {
        return Err(format!("`{key}` is longer than {limit} bytes"));
    }
    if value.chars().any(char::is_control) {
        return Err(format!("`{key}` holds a control character: `{}`", quoted(value)));
    }
    Ok(())
}

fn whole(name: &str, at: Nanos) -> Result<(), String> {
    if at.0.is_multiple_of(1_000) {
        return Ok(());
    }
    Err(format!("`{name}` is not in whole microseconds, the resolution of records"))
}

#[expect(clippy::integer_division, reason = "instants of a checked record are whole microseconds")]
fn micros(at: Nanos) -> u64 {
    at.0 / 1_000
}

fn instant(key: &str, us: u64) -> Result<Nanos, String> {
    us.checked_mul(1_000).map(Nanos).ok_or_else(|| format!("`{key}` is beyond the largest instant"))
}

/// The requests that were seen in a file: each may stand in it once.
#[derive(Default)]
pub(super) struct Seen {
    requests: BTreeMap<String, BTreeSet<u32>>,
    cells: BTreeMap<String, CellTally>,
}

impl Seen {
    /// Notes a record.
    ///
    /// # Errors
    ///
    /// The request was seen before.
    pub(super) fn admit(&mut self, record: &Record) -> Result<(), String> {
        let fresh = match self.requests.get_mut(&record.cell) {
            Some(requests) => requests.insert(record.request),
            None => self.requests.insert(record.cell.clone(), BTreeSet::from([record.request])).is_none(),
        };
        if !fresh {
            return Err(format!("request {} of this cell is there already", record.request));
        }
        tally(&mut self.cells, record);
        Ok(())
    }

    /// What the records of each cell amount to.
    pub(super) fn into_tally(self) -> BTreeMap<String, CellTally> {
        self.cells
    }
}

/// What the records of one cell amount to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellTally {
    /// Number of records.
    pub records: usize,
    /// Highest request number.
    pub highest: u32,
    /// Earliest due instant.
    pub first_due: Nanos,
    /// Latest end.
    pub last_end: Nanos,
}

/// Adds a record to its cell's tally.
pub(super) fn tally(cells: &mut BTreeMap<String, CellTally>, record: &Record) {
    let Record { request, due, end, .. } = *record;
    if let Some(tally) = cells.get_mut(&record.cell) {
        tally.records += 1;
        tally.highest = tally.highest.max(request);
        tally.first_due = tally.first_due.min(due);
        tally.last_end = tally.last_end.max(end);
    } else {
        let first = CellTally { records: 1, highest: request, first_due: due, last_end: end };
        cells.insert(record.cell.clone(), first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::codec::samples;

    #[test]
    fn a_line_says_its_units_and_leaves_out_what_says_nothing() {
        let text = serde_json::to_string(&Line::from(&samples::streamed(3, 1_000, 50, 10, 3))).unwrap();
        assert_eq!(
            text,
            r#"{"cell":"c8","request":3,"due_us":1000000,"sent_us":1000000,"head_us":1050000,"first_byte_us":1050000,"first_answer_us":1050000,"gaps_us":[50000,10000,10000],"end_us":1070000,"prompt_tokens":512,"cached_tokens":0,"output_tokens":3,"tokens_from":"usage","text_bytes":12,"text_digest":"00000000000000ff","finish":"length","outcome":"ok"}"#
        );
        let classed = Record { class: Some("chat".to_owned()), ..samples::streamed(3, 1_000, 50, 10, 3) };
        let text = serde_json::to_string(&Line::from(&classed)).unwrap();
        assert!(text.starts_with(r#"{"cell":"c8","request":3,"class":"chat","due_us":1000000,"#), "{text}");
        assert_eq!(serde_json::from_str::<Line<'_>>(&text).unwrap().into_record(), Ok(classed));
        let mut unknown = samples::streamed(3, 1_000, 50, 10, 3);
        unknown.chunks.iter_mut().for_each(|chunk| chunk.tokens = None);
        assert!(serde_json::to_string(&Line::from(&unknown)).unwrap().contains(r#""chunk_tokens":[],"#));
        unknown.chunks[1].tokens = Some(4);
        assert!(serde_json::to_string(&Line::from(&unknown)).unwrap().contains("[null,4,null]"));
        unknown.doubt = Some(Doubt::MoreThanWanted);
        let text = serde_json::to_string(&Line::from(&unknown)).unwrap();
        assert!(text.contains(r#""tokens_from":"usage","doubt":"more_than_wanted","#), "{text}");
        assert_eq!(serde_json::from_str::<Line<'_>>(&text).unwrap().into_record(), Ok(unknown));
    }

    #[test]
    fn a_record_that_time_cannot_have_made_is_refused() {
        let good = samples::streamed(0, 10, 5, 5, 2);
        check(&good).unwrap();
        let broken = |change: fn(&mut Record)| {
            let mut record = good.clone();
            change(&mut record);
            check(&record).unwrap_err()
        };
        assert!(broken(|r| r.sent = Nanos::ZERO).contains("`sent` is earlier than `due`"));
        assert!(broken(|r| r.end = r.sent).contains("`end` is earlier than `chunk`"));
        assert!(broken(|r| r.chunks.swap(0, 1)).contains("`chunk` is earlier than `chunk`"));
        assert!(broken(|r| r.end = Nanos(r.end.0 + 1)).contains("whole microseconds"));
        assert!(broken(|r| r.first_answer = Some(r.due)).contains("not among the chunks"));
        assert!(broken(|r| r.text_bytes = 0).contains("`text_bytes` is not"));
        assert!(broken(|r| r.detail = Some("a\u{1b}[31m".to_owned())).contains("control character"));
        assert!(broken(|r| r.finish = Some("x".repeat(65))).contains("longer than 64"));
        assert!(broken(|r| r.class = Some("x".repeat(65))).contains("`class` is longer than 64"));
        assert!(broken(|r| r.class = Some("a\nb".to_owned())).contains("`class` holds a control character"));
        assert!(broken(|r| r.class = Some(String::new())).contains("`class` is empty"));
    }
}
