//! `manifest.json`: what a run is, and whether its records agree with it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::artifact::codec::line::{self, CellTally};
use crate::artifact::codec::{CodecError, MAX_MANIFEST, quoted};
use crate::artifact::record::Record;
use crate::artifact::run::{CellEvidence, FORMAT, Manifest};
use crate::base::names::CacheMode;
use crate::base::units::Nanos;

/// Longest text of a manifest, in bytes.
const MAX_VALUE: usize = 4_096;

/// The bytes of `manifest.json`: indented JSON, one field a line, for people and for diffs.
///
/// # Errors
///
/// The manifest breaks a rule of the format.
pub fn encode(manifest: &Manifest) -> Result<Vec<u8>, CodecError> {
    check(manifest)?;
    let mut bytes = serde_json::to_vec_pretty(manifest).map_err(|error| refusal(&error.to_string()))?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// The manifest in these bytes.
///
/// # Errors
///
/// It is too large, newer than this version, or breaks a rule of the format.
pub fn decode(bytes: &[u8]) -> Result<Manifest, CodecError> {
    /// What every version has.
    #[derive(Deserialize)]
    struct Version {
        format: u32,
    }

    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX_MANIFEST {
        return Err(CodecError::TooLarge { what: "the manifest", limit: MAX_MANIFEST });
    }
    let version: Version = serde_json::from_slice(bytes).map_err(|error| refusal(&error.to_string()))?;
    if version.format > FORMAT {
        return Err(CodecError::Newer { found: version.format });
    }
    let manifest = serde_json::from_slice(bytes).map_err(|error| refusal(&error.to_string()))?;
    check(&manifest)?;
    Ok(manifest)
}

/// Whether the records are those of the manifest: every record belongs to a cell and to its plan, none
/// is missing from a complete run. A record that was dropped would make a release look better.
///
/// # Errors
///
/// The first disagreement.
pub fn agree(manifest: &Manifest, cells: &BTreeMap<String, CellTally>) -> Result<(), CodecError> {
    let total =
        cells.values().fold(0_u64, |sum, tally| sum.saturating_add(u64::try_from(tally.records).unwrap_or(u64::MAX)));
    if total != manifest.record_count {
        return Err(refusal(&format!("it counts {} records and there are {total}", manifest.record_count)));
    }
    if let Some(stray) = cells.keys().find(|name| manifest.cells.iter().all(|cell| &cell.name != *name)) {
        return Err(refusal(&format!("records of cell `{stray}` are there and the manifest does not name it")));
    }
    for cell in &manifest.cells {
        let tally = cells.get(&cell.name);
        let records = tally.map_or(0, |tally| tally.records);
        let attempted = usize::try_from(cell.attempted).unwrap_or(usize::MAX);
        if records > attempted || (manifest.complete && records != attempted) {
            return Err(refusal(&format!(
                "cell `{}` has {records} records and {attempted} attempted requests",
                cell.name
            )));
        }
        let Some(tally) = tally else { continue };
        if tally.highest >= cell.planned {
            return Err(refusal(&format!("cell `{}` has a request beyond the {} planned", cell.name, cell.planned)));
        }
        // Throughput is per second of the window: another window is another throughput.
        let window = [cell.window_start_us, cell.window_end_us].map(Nanos::from_micros);
        if manifest.complete && window != [tally.first_due, tally.last_end] {
            return Err(refusal(&format!("the window of cell `{}` is not that of its records", cell.name)));
        }
    }
    Ok(())
}

/// What the records of each cell amount to.
pub fn tally(records: &[Record]) -> BTreeMap<String, CellTally> {
    let mut cells = BTreeMap::new();
    for record in records {
        line::tally(&mut cells, record);
    }
    cells
}

fn check(manifest: &Manifest) -> Result<(), CodecError> {
    if manifest.format == 0 || manifest.format > FORMAT {
        return Err(refusal(&format!("format {} does not exist", manifest.format)));
    }
    let known = manifest.conditions.values().map(|known| &known.value);
    let definitions = manifest.definitions.iter().flat_map(|(metric, definition)| [metric, definition]);
    let named = [&manifest.servegate, &manifest.release, &manifest.session, &manifest.started, &manifest.workload];
    let cells = manifest.cells.iter().map(|cell| &cell.name);
    for text in named.into_iter().chain(known).chain(definitions).chain(cells) {
        if text.len() > MAX_VALUE || text.chars().any(char::is_control) {
            return Err(refusal(&format!("a text is too long or holds a control character: `{}`", quoted(text))));
        }
    }
    if manifest.started.parse::<jiff::Timestamp>().is_err() {
        return Err(refusal(&format!("`started` is not a time in RFC 3339: `{}`", quoted(&manifest.started))));
    }
    if manifest.time_to_ready_ms.is_some_and(|ms| !ms.is_finite() || ms < 0.0) {
        return Err(refusal("`time_to_ready_ms` is not a time"));
    }
    if (manifest.caches == Some(CacheMode::Salted)) != manifest.salt.is_some() {
        return Err(refusal("`salt` is there where `caches` is `salted`, and nowhere else"));
    }
    let shares = |cell: &CellEvidence| cell.client.as_ref()?.host.map(|host| [host.busy, host.steal, host.own]);
    if manifest.cells.iter().filter_map(shares).flatten().any(|share| !(0.0..=1.0).contains(&share)) {
        return Err(refusal("a share of the host's processor time is not between 0 and 1"));
    }
    let mut names = BTreeSet::new();
    for cell in &manifest.cells {
        if !names.insert(&cell.name) {
            return Err(refusal(&format!("cell `{}` is there twice", cell.name)));
        }
        if cell.attempted > cell.planned {
            return Err(refusal(&format!("cell `{}` attempted more requests than planned", cell.name)));
        }
        if cell.window_end_us < cell.window_start_us {
            return Err(refusal(&format!("the window of cell `{}` ends before it starts", cell.name)));
        }
        if cell.server.is_some_and(|server| !server.is_sound()) {
            return Err(refusal(&format!("what the server counted in cell `{}` is no number of anything", cell.name)));
        }
    }
    Ok(())
}

fn refusal(what: &str) -> CodecError {
    CodecError::Manifest { what: quoted(what) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::artifact::codec::samples::streamed;
    use crate::artifact::conditions::Conditions;
    use crate::artifact::run::ClockKind;
    use crate::base::digest::{Digest, ShortDigest};
    use crate::base::names::{Api, Metric, Side};

    /// A manifest of a complete run with these records, all of one workload and session.
    pub(crate) fn manifest_of(records: &[Record]) -> Manifest {
        let cells = tally(records).into_iter().map(|(name, tally)| {
            let own = || records.iter().filter(|record| record.cell == name);
            let count = u32::try_from(tally.records).unwrap();
            CellEvidence {
                attempted: count,
                window_start_us: own().map(|record| record.due.0.div_euclid(1_000)).min().unwrap(),
                window_end_us: own().map(|record| record.end.0.div_euclid(1_000)).max().unwrap(),
                ..CellEvidence::planned(&name, count)
            }
        });
        Manifest {
            format: FORMAT,
            servegate: "0.1.0".to_owned(),
            side: Side::Candidate,
            release: "v1".to_owned(),
            session: "s1".to_owned(),
            sequence: 0,
            started: "2026-01-01T00:00:00Z".to_owned(),
            workload: "chat".to_owned(),
            plan: Digest::of(b"plan"),
            restarted: true,
            time_to_ready_ms: Some(1_234.5),
            api: Api::Chat,
            forced_length: true,
            tokenizer: None,
            clock: ClockKind::Simulated,
            caches: None,
            salt: None,
            trusted_streams: None,
            conditions: Conditions::new(),
            definitions: Metric::ALL.iter().map(|m| (m.id().to_owned(), m.definition().to_owned())).collect(),
            cells: cells.collect(),
            complete: true,
            records: Digest::of(b""),
            record_count: u64::try_from(records.len()).unwrap(),
            texts: None,
        }
    }

    #[test]
    fn a_manifest_reads_back_and_a_changed_one_is_refused() {
        let records = [streamed(0, 0, 5, 5, 5)];
        let manifest = manifest_of(&records);
        let bytes = encode(&manifest).unwrap();
        assert_eq!(decode(&bytes).unwrap(), manifest);
        let text = String::from_utf8(bytes).unwrap();
        for (from, to, part) in [
            ("\"format\": 1", "\"format\": 2", "newer than 1"),
            ("\"format\": 1", "\"format\": 0", "does not exist"),
            ("\"side\"", "\"colour\": 1, \"side\"", "unknown field `colour`"),
            ("\"attempted\": 1", "\"attempted\": 2", "more requests than planned"),
            ("1234.5", "-1.0", "`time_to_ready_ms`"),
            ("1234.5", "1e999", "number out of range"),
            ("\"v1\"", "\"v\\u001b1\"", "control character"),
            ("2026-01-01T00:00:00Z", "yesterday", "`started` is not a time in RFC 3339: `yesterday`"),
            ("2026-01-01T00:00:00Z", "2026-13-01T00:00:00Z", "`started` is not a time"),
        ] {
            let message = decode(text.replacen(from, to, 1).as_bytes()).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn caches_and_salt_read_back_and_only_salted_prompts_have_a_salt() {
        let plain = manifest_of(&[streamed(0, 0, 5, 5, 5)]);
        let text = String::from_utf8(encode(&plain).unwrap()).unwrap();
        assert!(!text.contains("caches") && !text.contains("salt"), "undeclared is absent, as in older runs");
        let reset = Manifest { caches: Some(CacheMode::Reset), ..plain.clone() };
        let salted = Manifest {
            caches: Some(CacheMode::Salted),
            salt: Some(ShortDigest(0x00ab_0000_0000_00cd)),
            ..plain.clone()
        };
        for manifest in [&plain, &reset, &salted] {
            assert_eq!(&decode(&encode(manifest).unwrap()).unwrap(), manifest);
        }
        let text = String::from_utf8(encode(&salted).unwrap()).unwrap();
        assert!(text.contains("\"caches\": \"salted\",\n  \"salt\": \"00ab0000000000cd\""), "{text}");
        assert!(
            decode(text.replace("\"salted\"", "\"cold\"").as_bytes()).is_err(),
            "what was done, not what was declared"
        );
        for wrong in [Manifest { caches: None, ..salted.clone() }, Manifest { salt: None, ..salted }] {
            assert!(encode(&wrong).unwrap_err().to_string().contains("`salt` is there where"));
        }
    }

    #[test]
    fn records_that_are_not_those_of_the_manifest_are_found() {
        let records: Vec<_> = (0..3).map(|n| streamed(n, 0, 5, 5, 5)).collect();
        let manifest = manifest_of(&records);
        agree(&manifest, &tally(&records)).unwrap();
        assert!(agree(&manifest, &tally(&records[..2])).is_err());
        let mut dropped = Manifest { record_count: 2, ..manifest.clone() };
        assert!(agree(&dropped, &tally(&records[..2])).unwrap_err().to_string().contains("2 records and 3 attempted"));
        dropped.complete = false;
        agree(&dropped, &tally(&records[..2])).unwrap();
        let mut shrunk = manifest.clone();
        shrunk.cells[0].window_end_us -= 1;
        assert!(agree(&shrunk, &tally(&records)).unwrap_err().to_string().contains("not that of its records"));
        let mut other = records.clone();
        other[0].request = 3;
        assert!(agree(&manifest, &tally(&other)).unwrap_err().to_string().contains("beyond the 3 planned"));
        other[0].cell = "c9".to_owned();
        assert!(agree(&manifest, &tally(&other)).unwrap_err().to_string().contains("`c9`"));
    }
}
