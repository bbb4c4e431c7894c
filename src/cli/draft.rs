//! A run before it is measured: what its manifest says already, and how its requests look.

use std::collections::BTreeMap;

use crate::artifact::conditions::Conditions;
use crate::artifact::run::{CellEvidence, ClockKind, ConnectionCap, FORMAT, Manifest};
use crate::base::digest::{Digest, ShortDigest};
use crate::base::names::{Api, CacheMode, Metric, Side};
use crate::cli::deployment::{Boot, Speaks};
use crate::cli::error::CliError;
use crate::cli::trust::trusted_streams;
use crate::loadgen::codec::Codec;
use crate::plan::RunName;
use crate::plan::prompt;
use crate::plan::request::{Form, Plan, PlannedCell, PlannedRequest, PromptRecipe};
use crate::wire::dialect::{self, Template};
use crate::wire::tokenizer::Tokenizer;

/// A run that is about to be measured.
pub(crate) struct Draft<'a> {
    /// Session, position and start.
    pub(crate) name: RunName<'a>,
    /// Which side.
    pub(crate) side: Side,
    /// Of which release.
    pub(crate) release: &'a str,
    /// What it follows.
    pub(crate) plan: &'a Plan,
}

impl Draft<'_> {
    /// The manifest without cells and records, and the codec of the requests. `caches` is what was done about the server's
    /// caches, with the salt of the prompts.
    pub(crate) fn with(
        &self,
        speaks: &Speaks,
        boot: &Boot,
        (caches, salt): (Option<CacheMode>, Option<ShortDigest>),
    ) -> Result<(Manifest, Codec), CliError> {
        let Self { name: RunName { session, sequence, started }, side, release, plan } = *self;
        // The simulated engine is measured in virtual time: no host is too slow for it.
        let trusted_streams = if speaks.clock == ClockKind::Http { trusted_streams()? } else { None };
        let dialect = dialect::of(speaks.api).serving(&speaks.model);
        let template = Template::new(&dialect, &speaks.model, &speaks.extra_body);
        let run = format!("{session}-{sequence:02}-{side}");
        let codec =
            Codec { dialect, template, run, api_key: speaks.api_key.clone(), tokenizer: speaks.tokenizer.clone() };
        let manifest = Manifest {
            format: FORMAT,
            servegate: env!("CARGO_PKG_VERSION").to_owned(),
            side,
            release: release.to_owned(),
            session: session.to_owned(),
            sequence,
            started: started.to_owned(),
            workload: plan.workload.clone(),
            plan: plan.fingerprint,
            restarted: boot.restarted,
            time_to_ready_ms: boot.time_to_ready.map(|time| time.to_stored_resolution().as_ms()),
            api: speaks.api,
            forced_length: codec.template.wanted(1).forced,
            tokenizer: codec.tokenizer.as_ref().map(Tokenizer::file),
            clock: speaks.clock,
            caches,
            salt,
            trusted_streams,
            conditions: Conditions::clone(&boot.conditions),
            definitions: definitions(),
            cells: Vec::new(),
            complete: false,
            records: Digest::of(b""),
            record_count: 0,
            texts: None,
        };
        Ok((manifest, codec))
    }
}

/// Whether the deployment takes prompts as the workload sends them.
pub(crate) fn can_be_sent(plan: &Plan, speaks: &Speaks) -> Result<(), CliError> {
    let Speaks { api, tokenizer, .. } = speaks;
    for cell in &plan.cells {
        // Of a class all requests are sent alike, and the longest is as good as any.
        let mut shown: BTreeMap<Option<&str>, &PlannedRequest> = BTreeMap::new();
        for request in &cell.requests {
            let longest = shown.entry(request.class.as_deref()).or_insert(request);
            if request.prompt.words > longest.prompt.words {
                *longest = request;
            }
        }
        for request in shown.into_values() {
            match request.prompt.form {
                Form::Ids(_) if !dialect::of(*api).takes_ids() => return Err(takes_no_ids(plan, *api)),
                Form::Words | Form::Ids(_) => {}
                Form::Exact(_) => {
                    for recipe in texts(cell, request, *api) {
                        has_its_length(cell, &recipe, tokenizer.as_ref())?;
                    }
                }
            }
        }
    }
    Ok(())
}

/// The texts of a request: of a conversation that is sent as messages each is one.
fn texts(cell: &PlannedCell, request: &PlannedRequest, api: Api) -> Vec<PromptRecipe> {
    match cell.talk {
        Some(_) if dialect::of(api).takes_messages() => request.prompt.apart().collect(),
        _ => vec![request.prompt.clone()],
    }
}

fn takes_no_ids(plan: &Plan, api: Api) -> CliError {
    let takers = Api::ALL.iter().filter(|api| dialect::of(**api).takes_ids()).map(|api| api.id());
    let message =
        format!("the workload `{}` sends prompts as token ids, and the `{api}` interface takes none", plan.workload);
    let hint =
        format!("set `api` of the target to one of {}, or use `prompts: text`", takers.collect::<Vec<_>>().join(", "));
    CliError::failed(message).hint(hint)
}

/// Whether the target's tokenizer finds a text of exactly this length.
fn has_its_length(cell: &PlannedCell, recipe: &PromptRecipe, tokenizer: Option<&Tokenizer>) -> Result<(), CliError> {
    let Some(tokenizer) = tokenizer else {
        let message = "the workload's prompts have exact lengths (`prompts: exact`), and the target names no tokenizer";
        return Err(CliError::failed(message)
            .hint("add `tokenizer: path/to/tokenizer.json` to the target, or `--tokenizer FILE` to `--url`"));
    };
    if prompt::counted(recipe, Some(&|text| tokenizer.count(text))).is_some() {
        return Ok(());
    }
    let message = format!("no text of exactly {} tokens was found for cell `{}`", recipe.words, cell.name);
    Err(CliError::failed(message)
        .hint("choose another `content`, or `prompts: text` with lengths that are nearly right"))
}

/// The evidence of a cell before it is measured.
pub(crate) fn planned(cell: &PlannedCell) -> CellEvidence {
    let planned = u32::try_from(cell.requests.len()).unwrap_or(u32::MAX);
    let connections = cell.max_connections.map(ConnectionCap::of);
    CellEvidence { connections, ..CellEvidence::planned(&cell.name, planned) }
}

fn definitions() -> BTreeMap<String, String> {
    Metric::ALL.iter().map(|metric| (metric.id().to_owned(), metric.definition().to_owned())).collect()
}
