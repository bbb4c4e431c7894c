//! Conditions: what a number depends on, each value with its source.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::base::names::Condition;

/// Known conditions. A missing one is unknown; it is never guessed.
pub type Conditions = BTreeMap<Condition, Known>;

/// A value and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// The value, as text.
    pub value: String,
    /// Its source.
    pub source: Source,
}

/// Where a condition's value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Written by the team in `servegate.yaml` or a flag.
    Declared,
    /// Asked of the deployment.
    Probed,
}
