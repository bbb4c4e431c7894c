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
use crate::plan::request::{Plan, PlannedCell};
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

/// Whether the interface takes prompts as the workload sends them.
pub(crate) fn can_be_sent(plan: &Plan, api: Api) -> Result<(), CliError> {
    let mut requests = plan.cells.iter().flat_map(|cell| &cell.requests);
    let ids = requests.any(|request| request.prompt.vocabulary.is_some());
    if dialect::of(api).takes_ids() || !ids {
        return Ok(());
    }
    let takers = Api::ALL.iter().filter(|api| dialect::of(**api).takes_ids()).map(|api| api.id());
    let message =
        format!("the workload `{}` sends prompts as token ids, and the `{api}` interface takes none", plan.workload);
    let hint =
        format!("set `api` of the target to one of {}, or use `prompts: text`", takers.collect::<Vec<_>>().join(", "));
    Err(CliError::failed(message).hint(hint))
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
