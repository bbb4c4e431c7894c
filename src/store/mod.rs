//! Runs, baselines and bundles on disk. Everything is written so that a killed process leaves the old state or
//! the new one; everything is read as if an enemy had written it. `docs/formats.md`, `docs/baselines.md`.

pub mod baseline;
pub mod bundle;
pub mod files;
pub mod runs;
