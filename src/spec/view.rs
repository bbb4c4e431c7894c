//! Reading a checked mapping: only values that are right come out.

use crate::spec::findings::{Fault, Mark, child, item};
use crate::spec::scalar;
use crate::spec::shape::{Field, Kind, Need, Object};
use crate::spec::value::check_scalar;
use crate::spec::yaml::{Entry, Node, Value};

/// A mapping that was checked, with its description. It hands out only values that are right; what is
/// wrong is in the findings already.
#[derive(Clone, Debug)]
pub(super) struct View<'t> {
    object: &'static Object,
    node: Option<&'t Node>,
    /// The path of the mapping.
    pub(super) path: String,
}

impl<'t> View<'t> {
    pub(super) fn new(object: &'static Object, node: &'t Node, path: String) -> Self {
        Self { object, node: Some(node), path }
    }

    /// A mapping that is not written: only defaults.
    pub(super) const fn absent(object: &'static Object) -> Self {
        Self { object, node: None, path: String::new() }
    }

    /// The name of what it describes: `cell`.
    pub(super) const fn what(&self) -> &'static str {
        self.object.name
    }

    /// The place of a key's value, or of the mapping when the key is not there.
    pub(super) fn at(&self, key: &str) -> Mark {
        self.node(key).map_or_else(|| self.place(), |node| node.at.clone())
    }

    /// The path of a key.
    pub(super) fn key(&self, key: &str) -> String {
        child(&self.path, key)
    }

    /// The written value of a key.
    pub(super) fn node(&self, key: &str) -> Option<&'t Node> {
        self.node?.get(key)
    }

    /// Whether the key is written.
    pub(super) fn has(&self, key: &str) -> bool {
        self.node(key).is_some()
    }

    /// The value of a scalar key: the written one if it is right, else the default.
    pub(super) fn read<T>(&self, key: &str, parse: impl Fn(&str) -> Result<T, Fault>) -> Option<T> {
        let field = self.object.field(key)?;
        match self.node(key).map(|node| &node.value) {
            Some(Value::Scalar { text, plain }) if check_scalar(&field.kind, text, *plain).is_ok() => parse(text).ok(),
            Some(_) => None,
            None => match field.need {
                Need::Default(text) => parse(text).ok(),
                Need::Required | Need::Optional => None,
            },
        }
    }

    /// A text, its ends trimmed.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        self.read(key, |text| Ok(text.trim().to_owned()))
    }

    /// A whole number that fits 32 bits.
    pub(super) fn count(&self, key: &str) -> Option<u32> {
        self.read(key, scalar::count).and_then(|count| count.try_into().ok())
    }

    /// A name of one of the sets in `base::names`.
    pub(super) fn name<T>(&self, key: &str, from_id: fn(&str) -> Option<T>) -> Option<T> {
        self.read(key, |text| Ok(from_id(text))).flatten()
    }

    /// The mapping under a key.
    pub(super) fn view(&self, key: &str) -> Option<View<'t>> {
        let node = self.node(key)?;
        let (Kind::Object(object) | Kind::Either(_, Kind::Object(object))) = &self.object.field(key)?.kind else {
            return None;
        };
        matches!(node.value, Value::Map(_)).then(|| View::new(object, node, self.key(key)))
    }

    /// The mappings of a list of them.
    pub(super) fn views(&self, key: &str) -> Vec<View<'t>> {
        let Some(Field { kind: Kind::List(Kind::Object(object)), .. }) = self.object.field(key) else {
            return Vec::new();
        };
        self.items(key)
            .into_iter()
            .filter(|(_, node)| matches!(node.value, Value::Map(_)))
            .map(|(path, node)| View::new(object, node, path))
            .collect()
    }

    /// The items of a list with their paths.
    pub(super) fn items(&self, key: &str) -> Vec<(String, &'t Node)> {
        match self.node(key).map(|node| &node.value) {
            Some(Value::List(items)) => {
                let path = self.key(key);
                items.iter().enumerate().map(|(index, node)| (item(&path, index), node)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The entries of a mapping with free keys.
    pub(super) fn entries(&self, key: &str) -> &'t [Entry] {
        match self.node(key).map(|node| &node.value) {
            Some(Value::Map(entries)) => entries,
            _ => &[],
        }
    }

    /// The place of the mapping.
    pub(super) fn place(&self) -> Mark {
        self.node.map(|node| node.at.clone()).unwrap_or_default()
    }
}
