//! What people write: YAML text to validated policies, workloads and targets. Reading collects every
//! problem of a file with its place; after it nothing is checked again.
//!
//! A text becomes a tree that knows its places (`yaml`), the tree is checked against a description of its
//! keys (`shape`, `reader`, `value`), and what is right becomes a typed value (`*_file`). The JSON Schema
//! comes from the same description.

mod lengths_file;
pub mod policy;
pub mod slice;
pub mod slo;
pub mod target;
pub mod workload;

mod bind;
mod check_entry;
mod class_file;
mod config_file;
mod document;
mod findings;
mod load;
mod load_file;
mod picture;
mod policy_file;
mod reader;
mod repeats_file;
mod scalar;
mod schema;
mod shape;
mod text;
mod trace_file;
mod value;
mod view;
mod workload_file;
mod yaml;

#[cfg(test)]
mod tests;

pub use bind::PolicyDraft;
pub use config_file::read_config;
pub use document::{FileKind, Reading, kind_of};
pub use picture::render;
pub use policy_file::{default_role, read_policy};
pub use scalar::{WrongOption, check_url, read_duration, read_rate};
pub use schema::schema;
pub use workload_file::read_workload;
