//! `servegate verify`: the verdict of a bundle, recomputed from its runs.

use std::path::PathBuf;

use crate::cli::error::{CliError, Exit};
use crate::cli::files::suite;
use crate::cli::gate::{GATE_INDEX, GateIndex, SuiteIndex, TextIndex, VERDICT, context, decide};
use crate::cli::gathered::Gathered;
use crate::cli::suite::{Source, Suite};
use crate::cli::terminal::Terminal;
use crate::cli::traces::TraceFiles;
use crate::report::json;
use crate::report::view::View;
use crate::store::bundle::{Bundle, read_bundle};

/// Recompute the verdict of a bundle from its runs, and compare it with the one inside
///
/// It tells whether the bundle is genuine, whatever its verdict: exit 0 for a bundle whose runs give the verdict in it, a
/// FAIL too. The verdict is printed.
///
/// Example: servegate verify servegate-out/bundle
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The bundle
    #[arg(value_name = "BUNDLE")]
    bundle: PathBuf,
}

/// Judges again.
pub(crate) fn run(args: &Args, terminal: &mut Terminal) -> Result<Exit, CliError> {
    let mut bundle = read_bundle(&args.bundle).map_err(|error| CliError::failed(error.to_string()))?;
    let index: GateIndex = serde_json::from_slice(text(&bundle, GATE_INDEX)?)
        .map_err(|error| CliError::failed(format!("{GATE_INDEX} of the bundle: {error}")))?;
    let mut suites = Vec::new();
    for entry in &index.suites {
        let suite = suite_of(&bundle, entry)?;
        let gathered = gathered(&mut bundle, entry);
        suites.push((suite, Gathered { candidate: index.candidate.clone(), ..gathered }));
    }
    let kind: fn(String) -> CliError = match (index.conditions_differ, index.baseline_missing) {
        (true, _) => CliError::conditions_differ,
        (false, true) => CliError::not_comparable,
        (false, false) => CliError::failed,
    };
    let trouble = index.trouble.clone().map(kind);
    let judgement = decide(&suites, trouble.as_ref());
    let context = context(index.exit_policy, index.files, &suites);
    let view = View::new(&judgement, &context);
    let bytes = json::render(&view).map_err(|error| CliError::failed(error.to_string()))?;
    if bytes != text(&bundle, VERDICT)? {
        let wrote = &bundle.servegate;
        return Err(CliError::failed("the verdict in the bundle is not the one that its runs give")
            .hint(format!("it was written by servegate {}", wrote.escape_debug()))
            .hint(format!("its runs give: {}", view.headline)));
    }
    if terminal.json() {
        terminal.data(&bytes)?;
    } else {
        terminal.data(format!("the bundle is genuine: its runs give its verdict\n{}\n", view.headline).as_bytes())?;
    }
    Ok(Exit::Success)
}

fn text<'b>(bundle: &'b Bundle, name: &str) -> Result<&'b [u8], CliError> {
    let bytes = bundle.texts.get(name).map(Vec::as_slice);
    bytes.ok_or_else(|| CliError::failed(format!("the bundle has no `{}`", name.escape_debug())))
}

fn source(bundle: &Bundle, file: &TextIndex) -> Result<Source, CliError> {
    let bytes = text(bundle, &file.text)?.to_vec();
    let text = String::from_utf8(bytes).map_err(|_invalid| {
        CliError::failed(format!("`{}` of the bundle is not UTF-8 text", file.text.escape_debug()))
    })?;
    Ok(Source { name: file.name.clone(), text })
}

fn suite_of(bundle: &Bundle, entry: &SuiteIndex) -> Result<Suite, CliError> {
    let policies = entry.policies.iter().map(|file| source(bundle, file)).collect::<Result<_, _>>()?;
    let trace = |file: &TextIndex| Ok((file.name.clone(), text(bundle, &file.text)?.to_vec()));
    let traces = entry.traces.iter().map(trace).collect::<Result<TraceFiles, CliError>>()?;
    suite(source(bundle, &entry.file)?, traces, policies)
}

/// The suite's runs: those of its workload, in the order in which they were judged.
fn gathered(bundle: &mut Bundle, entry: &SuiteIndex) -> Gathered {
    let mut gathered = Gathered {
        reference: entry.reference.clone(),
        rebase: entry.rebase.clone(),
        paired: entry.paired,
        ..Gathered::default()
    };
    for (part, runs) in &mut bundle.runs {
        let own = runs.extract_if(.., |run| run.manifest.workload == entry.workload).collect();
        gathered.runs.insert(*part, own);
    }
    gathered
}
