//! YAML text to a small tree in which everything knows where it stands. The only file that names the
//! YAML crate (`docs/decisions/0001-yaml-crate.md`).
//!
//! What people write here is a subset of YAML: one document of mappings, lists and scalars, with
//! anchors for repeated values. Tags, merge keys, keys that are not scalars and repeated keys are
//! findings. A hostile text costs at most [`MAX_COST`] of memory.

use std::collections::BTreeMap;
use std::ops::Range;

use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, ScanError, Span};

use crate::spec::findings::{Fault, Findings, Mark, child, item};
use crate::spec::text::quote;

/// Longest text in bytes.
const MAX_BYTES: usize = 1 << 20;
/// Most memory of a tree, aliases expanded: [`NODE_COST`] for each node and a byte for each byte of text.
const MAX_COST: usize = 4 << 20;
const NODE_COST: usize = 32;
/// Deepest nesting.
const MAX_DEPTH: usize = 32;

/// A value and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) at: Mark,
}

/// What a node holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// Text; `plain` when it was written without quotes, so that it may mean a number, a truth value or nothing.
    Scalar { text: String, plain: bool },
    /// Items in file order.
    List(Vec<Node>),
    /// Entries in file order; keys are unique.
    Map(Vec<Entry>),
}

/// One key of a mapping with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_at: Mark,
    pub(super) value: Node,
}

impl Node {
    /// The value of this key, if the node is a mapping that has it.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value),
            Value::Scalar { .. } | Value::List(_) => None,
        }
    }

    /// The text of a scalar.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar { text, .. } => Some(text),
            Value::List(_) | Value::Map(_) => None,
        }
    }

    /// Memory and depth, for the limits.
    fn measure(&self) -> (usize, usize) {
        let sum = |(cost, depth): (usize, usize), (more, deeper): (usize, usize)| (cost + more, depth.max(deeper));
        let (cost, depth) = match &self.value {
            Value::Scalar { text, .. } => (text.len(), 0),
            Value::List(items) => items.iter().map(Self::measure).fold((0, 0), sum),
            Value::Map(entries) => entries
                .iter()
                .map(|entry| sum(entry.value.measure(), (entry.key.len() + NODE_COST, 0)))
                .fold((0, 0), sum),
        };
        (cost + NODE_COST, depth + 1)
    }
}

/// The tree of a text; none if there is no single readable document. Every problem is in the findings.
pub(super) fn parse(text: &str, findings: &mut Findings) -> Option<Node> {
    if text.len() > MAX_BYTES {
        let message = format!("the file has {} bytes, more than the {MAX_BYTES} that are read", text.len());
        findings.error(&Mark::default(), "", Fault::new("too-large", message, "split the file"));
        return None;
    }
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut builder = Builder {
        findings,
        before: text.len() - body.len(),
        open: Vec::new(),
        root: None,
        anchors: BTreeMap::new(),
        cost: 0,
        documents: 0,
    };
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    for event in Parser::new_from_str_with_options(body, options) {
        let step = match event {
            Ok((event, span)) => builder.event(event, &span),
            Err(error) => {
                builder.syntax_error(&error, body);
                Err(Stop)
            }
        };
        if step.is_err() {
            return None;
        }
    }
    let root = builder.root;
    if root.as_ref().is_none_or(|node| node.value == Value::Scalar { text: String::new(), plain: true }) {
        findings.error(
            &Mark::default(),
            "",
            Fault::new("empty-file", "the file is empty", "write its keys, or delete it"),
        );
        return None;
    }
    root
}

/// Reading cannot go on; the reason is in the findings.
struct Stop;

struct Builder<'a> {
    findings: &'a mut Findings,
    /// Bytes of the byte-order mark that was taken off.
    before: usize,
    open: Vec<Open>,
    root: Option<Node>,
    /// Finished anchored nodes by the parser's number.
    anchors: BTreeMap<usize, Node>,
    cost: usize,
    documents: usize,
}

/// A list or mapping whose end was not seen yet.
struct Open {
    at: Mark,
    anchor: usize,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, lines: BTreeMap<String, u32>, next: Next },
}

/// What the next node inside a mapping is.
enum Next {
    Key,
    Value(String, Mark),
    /// The value of a refused key.
    Dropped,
}

impl Builder<'_> {
    fn event(&mut self, event: Event<'_>, span: &Span) -> Result<(), Stop> {
        let at = self.mark(span);
        match event {
            Event::DocumentStart(..) => self.document(&at),
            Event::Scalar(text, style, anchor, tag) => {
                self.tag(&at, tag.is_some());
                let value = Value::Scalar { text: text.into_owned(), plain: style == ScalarStyle::Plain };
                self.finish(Node { value, at }, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.tag(&at, tag.is_some());
                self.begin(Open { at, anchor, content: Content::List(Vec::new()) })
            }
            Event::MappingStart(_, anchor, tag) => {
                self.tag(&at, tag.is_some());
                let content = Content::Map { entries: Vec::new(), lines: BTreeMap::new(), next: Next::Key };
                self.begin(Open { at, anchor, content })
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open { at, anchor, content }) => {
                    let value = match content {
                        Content::List(items) => Value::List(items),
                        Content::Map { entries, .. } => Value::Map(entries),
                    };
                    self.finish(Node { value, at }, anchor)
                }
                None => Ok(()),
            },
            Event::Alias(id) => self.alias(id, &at),
            _ => Ok(()),
        }
    }

    fn document(&mut self, at: &Mark) -> Result<(), Stop> {
        self.documents += 1;
        if self.documents == 1 {
            return Ok(());
        }
        let message = "a second document begins here; a file holds one";
        Err(self
            .stop(at, Fault::new("several-documents", message, "put it into a file of its own, or remove the `---`")))
    }

    fn begin(&mut self, open: Open) -> Result<(), Stop> {
        if self.open.len() >= MAX_DEPTH {
            return Err(self.too_deep(&open.at));
        }
        self.open.push(open);
        Ok(())
    }

    /// Adds the copy of an anchored node.
    fn alias(&mut self, id: usize, at: &Mark) -> Result<(), Stop> {
        let Some(node) = self.anchors.get(&id) else {
            let message = "the alias stands inside the value that it repeats";
            return Err(self.stop(at, Fault::new("alias-cycle", message, "write the value out")));
        };
        let (cost, depth) = node.measure();
        self.afford(cost, at)?;
        if self.open.len() + depth > MAX_DEPTH {
            return Err(self.too_deep(at));
        }
        match self.anchors.get(&id).cloned() {
            Some(node) => self.place(node),
            None => Ok(()),
        }
    }

    /// Takes a node that was read to its end.
    fn finish(&mut self, mut node: Node, anchor: usize) -> Result<(), Stop> {
        // The parser puts a block mapping at its first key, with no length: let it show that key.
        if let Value::Map(entries) = &node.value
            && let Some(first) = entries.first()
            && first.key_at.span.start == node.at.span.start
        {
            node.at = first.key_at.clone();
        }
        let own = node.text().map_or(0, str::len) + NODE_COST;
        self.afford(own, &node.at)?;
        if anchor != 0 {
            self.afford(node.measure().0, &node.at)?;
            self.anchors.insert(anchor, node.clone());
        }
        self.place(node)
    }

    /// Puts a node where it belongs: into the innermost open list or mapping, or at the root.
    fn place(&mut self, mut node: Node) -> Result<(), Stop> {
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        let (entries, lines, next) = match &mut open.content {
            Content::List(items) => {
                items.push(node);
                return Ok(());
            }
            Content::Map { entries, lines, next } => (entries, lines, next),
        };
        match std::mem::replace(next, Next::Key) {
            Next::Key => match admit_key(&node, lines) {
                Ok(key) => *next = Next::Value(key, node.at),
                Err(fault) => {
                    *next = Next::Dropped;
                    let path = child(&self.path(), node.text().unwrap_or_default());
                    self.findings.error(&node.at, &path, fault);
                }
            },
            Next::Value(key, key_at) => {
                if node.text() == Some("") && node.at.span.is_empty() {
                    node.at = key_at.clone(); // a value that is not there has no place of its own
                }
                entries.push(Entry { key, key_at, value: node });
            }
            Next::Dropped => {}
        }
        Ok(())
    }

    /// The path of the innermost open list or mapping's next child.
    fn path(&self) -> String {
        self.open.iter().fold(String::new(), |path, open| match &open.content {
            Content::List(items) => item(&path, items.len()),
            Content::Map { next: Next::Value(key, _), .. } => child(&path, key),
            Content::Map { .. } => path,
        })
    }

    fn tag(&mut self, at: &Mark, present: bool) {
        if present {
            let fault = Fault::new("tag", "a YAML tag (`!...`) has no meaning here", "remove the tag");
            let path = self.path();
            self.findings.error(at, &path, fault);
        }
    }

    fn afford(&mut self, cost: usize, at: &Mark) -> Result<(), Stop> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost <= MAX_COST {
            return Ok(());
        }
        let message = "the file, with its aliases written out, is larger than any workload or policy";
        Err(self.stop(at, Fault::new("too-large", message, "split the file, or use fewer aliases")))
    }

    fn too_deep(&mut self, at: &Mark) -> Stop {
        let message = format!("lists and mappings are nested more than {MAX_DEPTH} deep");
        self.stop(at, Fault::new("too-deep", message, "no key of servegate needs that: look for a missing `]` or `}`"))
    }

    fn stop(&mut self, at: &Mark, fault: Fault) -> Stop {
        let path = self.path();
        self.findings.error(at, &path, fault);
        Stop
    }

    fn syntax_error(&mut self, error: &ScanError, body: &str) {
        let marker = error.marker();
        let start = marker.byte_offset().unwrap_or(body.len()).min(body.len());
        let width = body.get(start..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
        let at = self.locate(marker, start..start + width);
        if *error.kind() == ErrorKind::RecursionLimitExceeded {
            self.too_deep(&at);
            return;
        }
        let help = match error.kind() {
            ErrorKind::UnknownAnchor => "define `&name` above its first use, or quote a text that begins with `*`",
            ErrorKind::TabNotAllowed | ErrorKind::TabInBlockIndentation => "indent with spaces",
            _ => "look at the indentation, colons, quotes and brackets here and on the lines above",
        };
        let message = format!("not readable as YAML: {}", error.kind());
        self.findings.error(&at, "", Fault::new("syntax", message, help));
    }

    fn mark(&self, span: &Span) -> Mark {
        self.locate(&span.start, span.byte_range().unwrap_or_default())
    }

    fn locate(&self, marker: &Marker, span: Range<usize>) -> Mark {
        let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Mark {
            line: narrow(marker.line()),
            column: narrow(marker.col()).saturating_add(1),
            span: span.start + self.before..span.end.max(span.start) + self.before,
        }
    }
}

/// The text of a node as a key of a mapping whose keys so far stand on these lines.
fn admit_key(node: &Node, lines: &mut BTreeMap<String, u32>) -> Result<String, Fault> {
    let Value::Scalar { text, plain } = &node.value else {
        return Err(Fault::new(
            "complex-key",
            "a list or mapping cannot be a key",
            "use a name; quote text with `[` or `{`",
        ));
    };
    if *plain && text == "<<" {
        let message = "merge keys (`<<`) are not part of YAML 1.2 and hide which keys count";
        return Err(Fault::new("merge-key", message, "write the keys out"));
    }
    if let Some(line) = lines.get(text) {
        let message = format!("{} is already set on line {line}", quote(text));
        return Err(Fault::new("duplicate-key", message, "keep one of the two"));
    }
    lines.insert(text.clone(), node.at.line);
    Ok(text.clone())
}
