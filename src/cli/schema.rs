//! `servegate schema`: JSON Schemas for editors.

use std::path::PathBuf;

use clap::ValueEnum;

use crate::cli::error::{CliError, Exit};
use crate::cli::terminal::Terminal;
use crate::spec::{FileKind, schema};
use crate::store::files::write_atomic;

/// Print a JSON Schema, or write all of them into a folder
///
/// Example: servegate schema policy > policy.schema.json
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which kind of file
    kind: Option<Kind>,

    /// Write `<kind>.schema.json` of every kind into this folder
    #[arg(long, value_name = "DIR", conflicts_with = "kind")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// What must hold: gate-policies/*.yaml
    Policy,
    /// The traffic: gate-policies/workloads/*.yaml
    Workload,
    /// Targets and defaults: servegate.yaml
    Config,
}

/// Prints or writes.
pub(crate) fn run(args: &Args, terminal: &mut Terminal) -> Result<Exit, CliError> {
    match (args.kind, &args.out) {
        (Some(kind), _) => {
            let kind = match kind {
                Kind::Policy => FileKind::Policy,
                Kind::Workload => FileKind::Workload,
                Kind::Config => FileKind::Config,
            };
            terminal.data_json(&schema(kind))?;
        }
        (None, Some(out)) => {
            for kind in FileKind::ALL {
                let path = out.join(format!("{kind}.schema.json"));
                let text = format!("{:#}\n", schema(*kind));
                write_atomic(&path, text.as_bytes()).map_err(|error| CliError::failed(error.to_string()))?;
                terminal.say(&format!("wrote {}", path.display()));
            }
        }
        (None, None) => {
            return Err(CliError::usage(
                "name a kind of file: `policy` (gate-policies/*.yaml), `workload` (gate-policies/workloads/*.yaml) or \
                 `config` (servegate.yaml)",
            )
            .hint("or write all of them into a folder: servegate schema --out DIR"));
        }
    }
    Ok(Exit::Success)
}
