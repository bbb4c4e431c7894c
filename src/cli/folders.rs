//! The folders that commands share, one rule for all: the option wins, then `servegate.yaml`, then the usual name.

use std::path::{Path, PathBuf};

use crate::spec::target::Config;

/// Folder of the reports by default.
const OUT: &str = "servegate-out";
/// Folder of the baselines by default.
const BASELINES: &str = "baselines";

/// The folder of the reports.
pub(crate) fn out(option: Option<&Path>, config: &Config) -> PathBuf {
    chosen(option, config.out.as_deref(), OUT)
}

/// The folder of the baselines.
pub(crate) fn store(option: Option<&Path>, config: &Config) -> PathBuf {
    chosen(option, config.baselines.as_deref(), BASELINES)
}

fn chosen(option: Option<&Path>, config: Option<&str>, usual: &str) -> PathBuf {
    option.map_or_else(|| config.unwrap_or(usual).into(), Path::to_owned)
}
