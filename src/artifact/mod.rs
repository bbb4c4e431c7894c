//! What a run leaves behind: its manifest, one record per request, and the metrics computed from them.

pub mod conditions;
pub mod record;
pub mod run;
