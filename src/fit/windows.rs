//! The parts of a trace that become cells: windows of one length, chosen by their rate.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::base::units::Nanos;
use crate::fit::{Options, Unfit, real};
use crate::trace::request::Requests;

/// Fewest requests of a window.
pub const LEAST: usize = 20;

/// A part of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The name of its cell.
    pub name: String,
    /// Its begin, from the first request of the trace.
    pub from: Nanos,
    /// Its end, which is not in it; the begin where the trace has no instants.
    pub until: Nanos,
    /// Its requests, by their positions in the trace.
    pub rows: Range<usize>,
    /// Windows of the trace among which it was chosen.
    pub among: usize,
}

impl Window {
    /// When it is, in words.
    pub fn when(&self) -> String {
        let Self { from, until, .. } = self;
        let from = if *from == Nanos::ZERO { "the begin".to_owned() } else { from.to_string() };
        format!("{from} to {until} of the trace")
    }
}

/// Windows from the busiest to the quietest: of those with enough requests, so many as are asked for, evenly by the rank of
/// their rates. The whole trace where none has enough, or where it is shorter than one.
pub(super) fn choose(trace: &Requests, options: &Options) -> Result<Vec<Window>, Unfit> {
    let has = trace.rows.len();
    if has < LEAST {
        return Err(Unfit::TooFew { has });
    }
    if !trace.arrivals {
        let name = "lengths".to_owned();
        return Ok(vec![Window { name, from: Nanos::ZERO, until: Nanos::ZERO, rows: 0..has, among: 1 }]);
    }
    let last = trace.rows.last().map_or(Nanos::ZERO, |row| row.at);
    if last == Nanos::ZERO {
        return Err(Unfit::AtOnce);
    }
    // As many gaps as requests.
    let gaps = u64::try_from(has.saturating_sub(1)).unwrap_or(u64::MAX);
    let length = last + Nanos(last.0.checked_div(gaps).unwrap_or(0).max(1));
    let mut full = full_windows(trace, options.window, length);
    full.retain(|(_, rows)| rows.len() >= LEAST);
    // Stable: of two with one rate the earlier is the quieter.
    full.sort_by_key(|(_, rows)| rows.len());
    if full.is_empty() {
        return Ok(vec![Window { name: "all".to_owned(), from: Nanos::ZERO, until: length, rows: 0..has, among: 1 }]);
    }
    let among = full.len();
    let window = |(rank, level): (usize, f64)| {
        let (from, rows) = full.get(rank)?;
        Some(Window { name: name(level), from: *from, until: *from + options.window, rows: rows.clone(), among })
    };
    Ok(ranks(among, options.cells).into_iter().filter_map(window).collect())
}

/// Whole windows with requests, by their begin.
fn full_windows(trace: &Requests, length: Nanos, end: Nanos) -> Vec<(Nanos, Range<usize>)> {
    let number = |at: Nanos| at.0.checked_div(length.0).unwrap_or(0);
    let mut windows: BTreeMap<u64, Range<usize>> = BTreeMap::new();
    for (place, row) in trace.rows.iter().enumerate() {
        windows.entry(number(row.at)).or_insert(place..place).end = place.saturating_add(1);
    }
    let begin = |number: u64| Nanos(number.saturating_mul(length.0));
    let whole = windows.into_iter().map(|(number, rows)| (begin(number), rows));
    whole.filter(|(from, _)| *from + length <= end).collect()
}

/// Ranks of the windows of so many that are chosen, the last first, with the share of them that is quieter.
fn ranks(among: usize, wanted: usize) -> Vec<(usize, f64)> {
    let (last, steps) = (among.saturating_sub(1), wanted.min(among).saturating_sub(1));
    let mut met = BTreeSet::new();
    let at = |step: usize| {
        let level = if steps == 0 { 1.0 } else { 1.0 - real(step) / real(steps) };
        // Rounded to the nearest rank without floats.
        let rank = last.saturating_sub((step * last * 2 + steps).checked_div(steps * 2).unwrap_or(0));
        (rank, level)
    };
    (0..=steps).map(at).filter(|(rank, _)| met.insert(*rank)).collect()
}

fn name(level: f64) -> String {
    if level >= 1.0 {
        "busiest".to_owned()
    } else if level <= 0.0 {
        "quietest".to_owned()
    } else if (level - 0.5).abs() < 1e-9 {
        "median".to_owned()
    } else {
        format!("rate-p{:.0}", 100.0 * level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_go_evenly_from_the_last_to_the_first() {
        let chosen = |among, wanted| {
            ranks(among, wanted).into_iter().map(|(rank, level)| (rank, name(level))).collect::<Vec<_>>()
        };
        let named =
            |all: &[(usize, &str)]| all.iter().map(|(rank, name)| (*rank, (*name).to_owned())).collect::<Vec<_>>();
        assert_eq!(chosen(7, 3), named(&[(6, "busiest"), (3, "median"), (0, "quietest")]));
        assert_eq!(chosen(2, 3), named(&[(1, "busiest"), (0, "quietest")]));
        assert_eq!(chosen(9, 1), named(&[(8, "busiest")]));
        assert_eq!(chosen(1, 3), named(&[(0, "busiest")]));
        assert_eq!(chosen(100, 4), named(&[(99, "busiest"), (66, "rate-p67"), (33, "rate-p33"), (0, "quietest")]));
    }
}
