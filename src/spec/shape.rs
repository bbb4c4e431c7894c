//! One description of each object that people write. It serves the check of every key and value
//! ([`crate::spec::reader`]), the defaults, and the JSON Schema ([`mod@crate::spec::schema`]), so that the three cannot drift.

/// A mapping with known keys.
#[derive(Debug)]
pub(super) struct Object {
    /// Its name in the JSON Schema.
    pub(super) name: &'static str,
    /// What it is, one sentence.
    pub(super) doc: &'static str,
    /// Its keys.
    pub(super) fields: &'static [Field],
    /// Exactly one of these keys is set; empty for no such rule.
    pub(super) one_of: &'static [&'static str],
}

impl Object {
    pub(super) fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// One key.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) need: Need,
    /// What it means, one sentence.
    pub(super) doc: &'static str,
}

/// Whether a key must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Required,
    Optional,
    /// Absent means this text, read like a written one.
    Default(&'static str),
}

/// What a value is. Bounds are inclusive and written as people write them.
#[derive(Debug)]
pub(super) enum Kind {
    /// The format version.
    Version,
    /// Exactly this word.
    Word(&'static str),
    /// Text for people or for another program, not empty, without control characters.
    Text,
    /// Lower-case letters, digits, `-` and `_`; part of file names and check ids.
    Name,
    /// Any scalar, taken as it is written.
    Fact,
    /// A relative path with `/`.
    RelativePath,
    /// A path of an HTTP request.
    UrlPath,
    Url,
    /// A path of an HTTP request, a whole URL, or `none`.
    Page,
    EnvName,
    /// One of these names.
    Choice(fn() -> Vec<&'static str>),
    Count {
        min: u64,
        max: u64,
    },
    Number {
        min: f64,
        max: f64,
    },
    Duration {
        min: &'static str,
        max: &'static str,
    },
    /// Whole days, at least one.
    Days,
    Percent {
        min: &'static str,
        max: &'static str,
    },
    /// `5%` or `1pp`, above zero.
    Amount,
    /// `9/s`.
    Rate {
        min: &'static str,
        max: &'static str,
    },
    /// `9/s`, or `70% of capacity`.
    CellRate {
        min: &'static str,
        max: &'static str,
    },
    Objective,
    /// A range of lengths: `8k-32k`.
    Context,
    /// A turn of a session, or a range of them: `1`, `2-4`, `2-`.
    Turns,
    /// A non-empty list without repetition.
    Set(&'static Self),
    /// A non-empty list.
    List(&'static Self),
    /// A non-empty mapping from any key of the first kind to values of the second.
    Map(&'static Self, &'static Self),
    Object(&'static Object),
    /// The first kind for a scalar, the second for a list or mapping.
    Either(&'static Self, &'static Self),
    /// A mapping of any JSON.
    Json,
}
