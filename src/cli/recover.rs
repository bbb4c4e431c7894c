//! `servegate recover`: what a killed measurement left becomes an incomplete run.

use std::path::PathBuf;

use serde_json::json;

use crate::base::words::count;
use crate::cli::error::{CliError, Exit};
use crate::cli::terminal::Terminal;
use crate::store::runs::StoredRun;
use crate::store::runs::recover::{RecoveredRun, recover};

/// Keep what a killed measurement left, as an incomplete run that is not judged
///
/// Example: servegate recover runs/v1.4.2/20260131-01-baseline.partial
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder; its name ends with `.partial`
    #[arg(value_name = "FOLDER.partial")]
    folder: PathBuf,
}

/// Recovers.
pub(crate) fn run(args: &Args, terminal: &mut Terminal) -> Result<Exit, CliError> {
    let recovered = recover(&args.folder).map_err(|error| CliError::failed(error.to_string()))?;
    let RecoveredRun { stored: StoredRun { path, manifest, .. }, lost } = recovered;
    let (path, requests) = (path.display().to_string(), count(manifest.record_count, "request"));
    if terminal.json() {
        let (complete, records) = (manifest.complete, manifest.record_count);
        terminal.data_json(&json!({ "run": path, "complete": complete, "records": records }))?;
    } else {
        terminal.data(format!("{path}\n").as_bytes())?;
    }
    terminal.say(&if manifest.complete {
        format!("{path}: the run is whole, with {requests}; only its name was missing")
    } else {
        format!("{path}: {requests} kept as an incomplete run; it is not judged and cannot become a baseline")
    });
    if let Some(lost) = lost {
        tracing::info!("the records end where the process was killed: {lost}");
    }
    Ok(Exit::Success)
}
