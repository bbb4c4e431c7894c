//! From rows in the order of a file to requests in the order of their arrival, with numbers in place of names.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::base::units::Nanos;
use crate::trace::faults::{Effect, Faults, Kind};
use crate::trace::formats::Format;
use crate::trace::refused::Refused;
use crate::trace::request::{Request, Requests, Traffic, Window};
use crate::trace::{Count, MAX_ROWS};

/// Most classes of a trace; what comes later is one class more.
const MAX_CLASSES: usize = 200;

/// Numbers for names, in the order in which they are met.
#[derive(Default)]
pub(super) struct Numbers<K>(BTreeMap<K, u32>);

impl<K: Ord> Numbers<K> {
    /// The number of a name.
    pub(super) fn of(&mut self, name: K) -> u32 {
        let next = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        *self.0.entry(name).or_insert(next)
    }
}

/// Numbers for blocks, of which a trace has millions: those that are in order already need no memory.
#[derive(Default)]
pub(super) struct BlockNumbers {
    /// Blocks from 0 up to here came in order and keep their numbers.
    ordered: u64,
    others: Numbers<u64>,
}

impl BlockNumbers {
    /// The number of a block.
    pub(super) fn of(&mut self, block: u64) -> u64 {
        if block < self.ordered {
            return block;
        }
        if block == self.ordered && self.others.0.is_empty() {
            self.ordered = self.ordered.saturating_add(1);
            return block;
        }
        self.ordered.saturating_add(self.others.of(block).into())
    }
}

/// Who a row is and whom it continues, by numbers that the reader gave.
#[derive(Clone, Copy, Default)]
pub(super) struct Link {
    /// Its own identity.
    pub(super) own: Option<u32>,
    /// The identity of the request that it continues.
    pub(super) parent: Option<u32>,
}

struct Row {
    request: Request,
    link: Link,
    line: u64,
}

/// What a reader fills.
pub(super) struct Collector<'c> {
    /// What was wrong.
    pub(super) faults: Faults,
    /// Whether rows have instants.
    pub(super) arrivals: bool,
    /// Tokens of a block.
    pub(super) block_tokens: Option<u32>,
    /// The first source, where the file is the normal form.
    pub(super) source: Option<Format>,
    /// What was counted when the first source was read.
    pub(super) inherited: Vec<(Kind, u64)>,
    /// The windows of a trace of rates.
    pub(super) windows: Vec<Window>,
    name: &'c str,
    count: Count<'c>,
    rows: u64,
    requests: Vec<Row>,
    latest: Nanos,
    classes: BTreeMap<String, u16>,
    class_names: Vec<String>,
}

impl<'c> Collector<'c> {
    pub(super) fn new(name: &'c str, count: Count<'c>) -> Self {
        Self {
            faults: Faults::default(),
            arrivals: true,
            block_tokens: None,
            source: None,
            inherited: Vec::new(),
            windows: Vec::new(),
            name,
            count,
            rows: 0,
            requests: Vec::new(),
            latest: Nanos::ZERO,
            classes: BTreeMap::new(),
            class_names: Vec::new(),
        }
    }

    /// The function that counts the tokens of a text.
    pub(super) fn count(&self) -> Count<'c> {
        self.count
    }

    /// Counts rows of the file.
    ///
    /// # Errors
    /// There are more than are read.
    pub(super) fn rows(&mut self, rows: u64) -> Result<(), Refused> {
        self.rows = self.rows.saturating_add(rows);
        if self.is_full() { Err(Refused::TooManyRows { name: self.name.to_owned() }) } else { Ok(()) }
    }

    /// Whether there are more rows, or more requests in them, than are read.
    fn is_full(&self) -> bool {
        self.rows > MAX_ROWS || u64::try_from(self.requests.len()).unwrap_or(u64::MAX) > MAX_ROWS
    }

    /// The class that the source calls `key`: a name of ours where the word is known, else a number.
    pub(super) fn class(&mut self, key: &str, known: Option<String>) -> Option<u16> {
        if let Some(class) = self.classes.get(key) {
            return Some(*class);
        }
        let met = self.class_names.len();
        if met > MAX_CLASSES {
            return u16::try_from(MAX_CLASSES).ok();
        }
        let name = match known {
            _ if met == MAX_CLASSES => "further".to_owned(),
            Some(name) => name,
            None => format!("class-{}", met.saturating_add(1)),
        };
        let class = u16::try_from(met).ok()?;
        self.class_names.push(name);
        self.classes.insert(key.to_owned(), class);
        Some(class)
    }

    /// Takes a request, or says why it is none.
    pub(super) fn request(&mut self, line: u64, request: Request, link: Link) {
        if self.is_full() {
            return;
        }
        let left_out = match (request.prompt_tokens, request.output_tokens) {
            (0, Some(0)) => Some(Kind::EmptyRequest),
            (_, Some(0)) => Some(Kind::FailedRequest),
            (0, _) => Some(Kind::NoPrompt),
            _ => None,
        };
        if let Some(kind) = left_out {
            self.faults.add(kind, line, "");
            return;
        }
        if request.at < self.latest {
            self.faults.add(Kind::OutOfOrder, line, "");
        }
        self.latest = self.latest.max(request.at);
        if let Some(tokens) = self.block_tokens
            && !request.blocks.is_empty()
            && u32::try_from(request.blocks.len()) != Ok(request.prompt_tokens.div_ceil(tokens.max(1)))
        {
            self.faults.add(Kind::BlockCount, line, "");
        }
        self.requests.push(Row { request, link, line });
    }

    /// Orders and numbers what was taken.
    ///
    /// # Errors
    /// There are more than are read, more than half of the rows are faulty, or none is a request.
    pub(super) fn finish(mut self, format: Format) -> Result<(Traffic, Faults), Refused> {
        let faulty = self.faults.with(Effect::Faulty);
        let name = self.name.to_owned();
        if self.is_full() {
            return Err(Refused::TooManyRows { name });
        }
        if faulty > self.rows.saturating_sub(faulty) {
            let reasons = self.faults.sentences(Effect::Faulty);
            return Err(Refused::Faulty { name, format, faulty, rows: self.rows, reasons });
        }
        if !self.windows.is_empty() {
            return Ok((Traffic::Windows(self.windows), self.faults));
        }
        if self.requests.is_empty() {
            let mut reasons = self.faults.sentences(Effect::LeftOut);
            reasons.extend(self.faults.sentences(Effect::Faulty));
            return Err(Refused::NoRequest { name, format, rows: self.rows, reasons });
        }
        for (kind, rows) in std::mem::take(&mut self.inherited) {
            self.faults.inherit(kind, rows);
        }
        // Stable: rows of one instant stay in the order of the file.
        self.requests.sort_by_key(|row| row.request.at);
        self.follow_parents();
        let origin = self.requests.first().map_or(Nanos::ZERO, |row| row.request.at);
        let (mut blocks, mut used, mut classes) = (BlockNumbers::default(), Numbers::default(), Vec::new());
        let anew = |mut row: Row| {
            row.request.class = row.request.class.and_then(|class| {
                let number = used.of(class);
                if usize::try_from(number) == Ok(classes.len()) {
                    classes.push(self.class_names.get(usize::from(class))?.clone());
                }
                u16::try_from(number).ok()
            });
            row.request.at = row.request.at.since(origin);
            for block in &mut row.request.blocks {
                *block = blocks.of(*block);
            }
            row.request
        };
        let rows: Vec<Request> = self.requests.into_iter().map(anew).collect();
        let block_tokens = self.block_tokens.filter(|_| rows.iter().any(|request| !request.blocks.is_empty()));
        let requests =
            Requests { source: self.source.unwrap_or(format), arrivals: self.arrivals, block_tokens, classes, rows };
        Ok((Traffic::Requests(requests), self.faults))
    }

    /// Turns identities into positions, and numbers sessions and turns.
    fn follow_parents(&mut self) {
        let mut positions: BTreeMap<u32, usize> = BTreeMap::new();
        let mut named: BTreeMap<u32, u32> = BTreeMap::new();
        let mut turns: Vec<u32> = Vec::new();
        let mut sessions: Vec<Option<u32>> = Vec::with_capacity(self.requests.len());
        let linked: bool = self.requests.iter().any(|row| row.link.parent.is_some());
        for (position, row) in self.requests.iter_mut().enumerate() {
            // Only rows in front are known here: a circle of parents cannot close.
            let parent = row.link.parent.and_then(|identity| positions.get(&identity).copied());
            if row.link.parent.is_some() && parent.is_none() {
                self.faults.add(Kind::UnknownParent, row.line, "");
            }
            if let Some(own) = row.link.own {
                match positions.entry(own) {
                    Entry::Occupied(_) => self.faults.add(Kind::SameIdentity, row.line, ""),
                    Entry::Vacant(free) => {
                        free.insert(position);
                    }
                }
            }
            let mut fresh = || {
                turns.push(0);
                u32::try_from(turns.len().saturating_sub(1)).unwrap_or(u32::MAX)
            };
            let inherited = parent.and_then(|parent| sessions.get(parent).copied().flatten());
            let session = match row.request.session {
                Some(name) => Some(*named.entry(name).or_insert_with(fresh)),
                None if row.link.own.is_some() && linked => Some(inherited.unwrap_or_else(&mut fresh)),
                None => None,
            };
            sessions.push(session);
            row.request.parent = parent.and_then(|parent| u32::try_from(parent).ok());
            row.request.session = session;
            let place = session.and_then(|session| turns.get_mut(usize::try_from(session).ok()?));
            if let Some(turn) = place {
                *turn = turn.saturating_add(1);
                row.request.turn = row.request.turn.or(Some(*turn));
            }
        }
    }
}
