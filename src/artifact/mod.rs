//! What a run leaves behind: its manifest, one record per request, and the metrics computed from them.

pub mod codec;
pub mod conditions;
pub mod failures;
pub mod load;
pub mod metrics;
pub mod record;
pub mod run;
pub mod server;
pub mod validity;
