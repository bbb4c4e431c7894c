//! The two sides of a gate: whether they may be compared at all, and by how much they differ.

pub mod conditions;
pub mod effect;
pub mod evidence;
pub mod rules;

mod values;

#[cfg(test)]
pub(crate) mod synthetic;
