//! What the requests of a window look like: one kind, or several that become classes of the cell.

use std::collections::BTreeMap;

use crate::fit::prefix::Shared;
use crate::fit::table::{FEWEST, bins};
use crate::fit::{real, table};
use crate::spec::workload::{LengthRow, SharedPrefix};
use crate::trace::request::{Request, Requests};
use crate::trace::shape::Reuse;

/// The length of answers in a workload of a trace that tells none.
pub const UNKNOWN_OUTPUT: u32 = 256;
/// Bands of prompt lengths, where one prefix for all would have to be shorter than what prompts share.
const BANDS: usize = 6;
/// Fewest requests of a window that is cut into bands.
const FEWEST_IN_BANDS: usize = 120;
/// A class with a smaller share is one of the others.
const LEAST_SHARE: f64 = 0.02;
/// The class of what has none, or one that is rare.
const OTHERS: &str = "other";
/// Fewest rows that a class may have, if it has enough requests.
const FEWEST_ROWS: usize = 8;

/// Requests of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Kind {
    /// The class; none where the cell has one kind only.
    pub name: Option<String>,
    /// How many of the window's requests it has.
    pub requests: usize,
    /// Their lengths.
    pub rows: Vec<LengthRow>,
    /// What their prompts share.
    pub prefix: Option<SharedPrefix>,
    /// Whether the trace tells the length of an answer of theirs.
    pub is_told: bool,
}

/// The kinds of a window's requests.
pub(super) fn of(
    trace: &Requests,
    (rows, reuse): (&[Request], &[Reuse]),
    planned: (u32, u32),
    most_rows: usize,
) -> Vec<Kind> {
    let all: Vec<(&Request, Reuse)> = rows.iter().zip(reuse.iter().copied()).collect();
    let mut parts = by_class(trace, &all, planned.1);
    if parts.len() < 2 {
        parts = by_length(&all);
    }
    let most = if parts.len() < 2 { most_rows } else { most_rows.div_euclid(parts.len()).max(FEWEST_ROWS) };
    let kind = |(name, part): (String, Vec<(&Request, Reuse)>)| {
        let share = real(part.len()) / real(all.len());
        let (warmup, requests) = (f64::from(planned.0) * share, f64::from(planned.1) * share);
        kind(name, &part, (warmup, requests), most)
    };
    let mut kinds: Vec<Kind> = parts.into_iter().map(kind).collect();
    if let [only] = kinds.as_mut_slice() {
        only.name = None;
    }
    kinds
}

fn kind(name: String, part: &[(&Request, Reuse)], planned: (f64, f64), most: usize) -> Kind {
    let told = part.iter().filter_map(|(row, _)| Some((row.prompt_tokens, row.output_tokens?)));
    let mut pairs: Vec<(u32, u32)> = told.collect();
    let is_told = pairs.len() >= FEWEST;
    if !is_told {
        pairs = part.iter().map(|(row, _)| (row.prompt_tokens, UNKNOWN_OUTPUT)).collect();
    }
    let rows = table::of(&pairs, most);
    let least = rows.iter().map(|row| row.prompt.min).min().unwrap_or(1);
    let reuse: Vec<Reuse> = part.iter().map(|(_, reuse)| *reuse).collect();
    Kind { name: Some(name), requests: part.len(), prefix: Shared::of(&reuse).prefix(least, planned), rows, is_told }
}

type Parts<'t> = BTreeMap<String, Vec<(&'t Request, Reuse)>>;

/// By the classes of the trace. What is rare, or of no class, is one class together, and goes to the largest where that is
/// rare, too.
fn by_class<'t>(trace: &Requests, all: &[(&'t Request, Reuse)], planned: u32) -> Parts<'t> {
    let mut parts = Parts::new();
    for (row, reuse) in all {
        let name = trace.class(row).map_or_else(|| OTHERS.to_owned(), name);
        parts.entry(name).or_default().push((row, *reuse));
    }
    let is_rare = |part: &[(&Request, Reuse)]| {
        let share = real(part.len()) / real(all.len());
        part.len() < FEWEST || share < LEAST_SHARE || share * f64::from(planned) < 1.0
    };
    let rare: Vec<String> = parts.iter().filter(|(_, part)| is_rare(part)).map(|(name, _)| name.clone()).collect();
    let mut others: Vec<_> = rare.iter().filter_map(|name| parts.remove(name)).flatten().collect();
    let largest = parts.iter().max_by_key(|(_, part)| part.len()).map(|(name, _)| name.clone());
    let alone = is_rare(&others) && !parts.contains_key(OTHERS);
    let to = largest.filter(|_| alone).unwrap_or_else(|| OTHERS.to_owned());
    if !others.is_empty() {
        parts.entry(to).or_default().append(&mut others);
    }
    parts
}

/// A name of the normal form as a name of a workload.
fn name(class: &str) -> String {
    let plain = class.replace('.', "-");
    if plain.starts_with(|c: char| c.is_ascii_alphanumeric()) { plain } else { format!("class{plain}") }
}

/// By the lengths of prompts, where prompts share more than the shortest one is long.
fn by_length<'t>(all: &[(&'t Request, Reuse)]) -> Parts<'t> {
    let reuse: Vec<Reuse> = all.iter().map(|(_, reuse)| *reuse).collect();
    let mut prompts: Vec<u32> = all.iter().map(|(row, _)| row.prompt_tokens).collect();
    prompts.sort_unstable();
    let shared = Shared::of(&reuse);
    let fits = prompts.first().is_none_or(|least| shared.tokens < f64::from(*least));
    let bands = if fits || shared.known < 1.0 || all.len() < FEWEST_IN_BANDS { 1 } else { BANDS };
    let mut parts = Parts::new();
    for (number, band) in (1_u32..).zip(bins(&prompts, bands)) {
        let ends = prompts.get(band).and_then(|band| Some((*band.first()?, *band.last()?)));
        let Some((first, last)) = ends else { continue };
        let part = all.iter().filter(|(row, _)| (first..=last).contains(&row.prompt_tokens)).copied();
        parts.insert(format!("band-{number}"), part.collect());
    }
    parts
}
