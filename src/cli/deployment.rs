//! What is measured: a live deployment over HTTP, or the simulated engine in virtual time. Both boot one
//! side and hand out a transport; everything after that is the same code.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::{Map, Value};

use crate::artifact::conditions::{Conditions, Known, Source};
use crate::artifact::run::ClockKind;
use crate::base::digest::Digest;
use crate::base::names::{Api, Condition, Side};
use crate::base::secret::Secret;
use crate::base::units::Nanos;
use crate::cli::error::CliError;
use crate::cli::signals::Interrupt;
use crate::cli::tokenizer::load;
use crate::loadgen::http::{HttpTarget, HttpTransport};
use crate::loadgen::metered::Metered;
use crate::probe::caches::{self, Reset};
use crate::probe::control::Control;
use crate::probe::counters::PageMeter;
use crate::probe::preflight::{Caution, Trial, preflight};
use crate::probe::{conditions, restart};
use crate::spec::target::Target;
use crate::wire::dialect::{self, Template};
use crate::wire::tokenizer::Tokenizer;
use crate::wire::transport::Transport;

/// The first request may have to load a model.
const PREFLIGHT_LIMIT: Nanos = Nanos::from_secs(120);

/// A server drops its caches at once; what waits longer is stuck.
const RESET_LIMIT: Nanos = Nanos::from_secs(30);

/// Longest fields that are kept as they are; longer ones as a digest.
const MOST_FIELDS: usize = 200;

/// What is added to every request, as a condition: the text itself, in the order of its keys.
fn request_fields(extra_body: &Map<String, Value>) -> String {
    let text = Value::Object(extra_body.clone()).to_string();
    if text.chars().count() > MOST_FIELDS { Digest::of(text.as_bytes()).to_string() } else { text }
}

/// How requests to a deployment look.
#[derive(Clone, Debug)]
pub(crate) struct Speaks {
    /// HTTP interface.
    pub(crate) api: Api,
    /// Model to ask for.
    pub(crate) model: String,
    /// Extra fields of each body.
    pub(crate) extra_body: Map<String, Value>,
    /// Real or virtual time.
    pub(crate) clock: ClockKind,
    /// The API key, where one is needed.
    pub(crate) api_key: Option<Secret>,
    /// Counts the answers for which the deployment does not.
    pub(crate) tokenizer: Option<Tokenizer>,
}

/// One boot of one side.
pub(crate) struct Boot {
    /// Carries the requests; its clock starts here.
    pub(crate) transport: Box<dyn Transport>,
    /// What is known about the deployment.
    pub(crate) conditions: Conditions,
    /// Whether it was restarted for this boot.
    pub(crate) restarted: bool,
    /// From the restart command's start to the first good answer of the readiness check.
    pub(crate) time_to_ready: Option<Nanos>,
    /// Worth saying once.
    pub(crate) cautions: Vec<String>,
}

/// Something that can be measured.
pub(crate) trait Deployment {
    /// How its requests look.
    fn speaks(&self) -> &Speaks;

    /// Whether a boot is a fresh start. If not, no control can be measured, and all passes are one session.
    fn can_restart(&self) -> bool;

    /// Boots one side for the run with this number in the session.
    fn boot(&mut self, side: Side, release: &str, sequence: u32) -> Result<Boot, CliError>;

    /// Empties the caches of the server that was booted last, where it offers that. Nothing is in flight.
    fn reset_caches(&mut self) -> Result<Reset, CliError>;
}

/// A deployment behind a URL.
pub(crate) struct Live {
    target: Target,
    speaks: Speaks,
    /// Declared conditions of the baseline image, for its controls.
    control_conditions: Conditions,
    interrupt: Interrupt,
}

impl Live {
    /// Reads the API key from the environment and the tokenizer from its file; sends nothing.
    pub(crate) fn new(target: Target, control_conditions: Conditions, interrupt: Interrupt) -> Result<Self, CliError> {
        let api_key = target.api_key_env.as_deref().map(api_key).transpose()?;
        let speaks = Speaks {
            api: target.api,
            model: target.model.clone(),
            extra_body: target.extra_body.clone(),
            clock: ClockKind::Http,
            api_key,
            tokenizer: target.tokenizer.as_ref().map(load).transpose()?,
        };
        Ok(Self { target, speaks, control_conditions, interrupt })
    }

    fn control(&self) -> Result<Control, CliError> {
        Control::new(&self.target, self.speaks.api_key.clone()).map_err(|error| CliError::failed(error.to_string()))
    }

    fn http(&self) -> HttpTarget {
        HttpTarget {
            url: self.target.url.clone(),
            api_key: self.speaks.api_key.clone(),
            ca_file: self.target.ca_file.as_ref().map(PathBuf::from),
            version: self.target.protocol,
            proxy: self.target.proxy.clone(),
            session_header: self.target.session_header.clone(),
        }
    }

    /// Declared conditions win over probed ones: the team knows what it set, an engine may tell it otherwise.
    fn conditions(&self, side: Side, probed: Conditions) -> Conditions {
        let declared = self.target.conditions.iter();
        let declared = declared.map(|(name, value)| (*name, Known { value: value.clone(), source: Source::Declared }));
        let mut all: Conditions = probed.into_iter().chain(declared).collect();
        if side == Side::Control {
            all.extend(self.control_conditions.clone());
        }
        // Whatever anybody declares, this is what was sent.
        let sent = Known { value: request_fields(&self.speaks.extra_body), source: Source::Declared };
        all.insert(Condition::RequestFields, sent);
        all
    }

    fn flag(&self) -> Arc<AtomicBool> {
        self.interrupt.flag()
    }

    /// An interrupt that surfaced as an error keeps its own exit code. A restart command, or a server that
    /// refuses a key, may have repeated it.
    fn failed(&self, message: &impl ToString) -> CliError {
        match self.interrupt.exit() {
            Some(exit) => CliError::interrupted(exit, "interrupted"),
            None => CliError::failed(self.without_key(message)),
        }
    }

    fn without_key(&self, message: &impl ToString) -> String {
        match &self.speaks.api_key {
            Some(key) => key.hide_in(&message.to_string()),
            None => message.to_string(),
        }
    }
}

fn api_key(variable: &str) -> Result<Secret, CliError> {
    match std::env::var_os(variable).map(std::ffi::OsString::into_string) {
        Some(Ok(key)) if !key.trim().is_empty() => Ok(Secret::new(key.trim())),
        Some(Err(_)) => Err(CliError::failed(format!("the environment variable `{variable}` is not text"))),
        Some(Ok(_)) | None => {
            let error = CliError::failed(format!("the environment variable `{variable}` is not set or empty"));
            Err(error.hint("it is named by `api_key_env` of the target and must hold the API key"))
        }
    }
}

impl Deployment for Live {
    fn speaks(&self) -> &Speaks {
        &self.speaks
    }

    fn can_restart(&self) -> bool {
        self.target.restart.is_some()
    }

    fn boot(&mut self, side: Side, release: &str, _sequence: u32) -> Result<Boot, CliError> {
        let control = self.control()?;
        let flag = self.flag();
        let time_to_ready = match &self.target.restart {
            Some(command) => {
                let started = restart::restart(command, side, release, &flag).map_err(|error| self.failed(&error))?;
                let ready = control.ready(&self.target.ready, &flag).map_err(|error| self.failed(&error))?;
                Some(started + ready)
            }
            None => None,
        };
        let mut told = conditions::conditions(&control, &self.speaks.model);
        let texts = told.conditions.values_mut().map(|known| &mut known.value);
        texts.chain(told.models.iter_mut().flatten()).for_each(|text| *text = self.without_key(text));
        let connect = || HttpTransport::connect(&self.http(), self.flag()).map_err(|error| self.failed(&error));
        let dialect = dialect::of(self.speaks.api).serving(&self.speaks.model);
        let template = Template::new(&dialect, &self.speaks.model, &self.speaks.extra_body);
        let trial = Trial {
            api: self.speaks.api,
            dialect: &dialect,
            template: &template,
            model: &self.speaks.model,
            offered: told.models.as_deref(),
            timeout: PREFLIGHT_LIMIT,
            tokenizer: self.speaks.tokenizer.as_ref(),
        };
        let mut waiting = |limit: Nanos| {
            tracing::warn!(
                "the target has not answered the first request yet; it has {limit} (a model may be loading)"
            );
        };
        let cautions = preflight(trial, &mut connect()?, &mut waiting);
        let cautions: Vec<Caution> = cautions.map_err(|error| self.failed(&error))?;
        let mut cautions: Vec<String> = cautions.iter().map(ToString::to_string).collect();
        // After the first request: some engines show a counter only when it has counted something.
        let meter =
            PageMeter::find(control, &self.target.metrics, &self.speaks.model, flag).unwrap_or_else(|caution| {
                cautions.push(caution);
                None
            });
        let transport: Box<dyn Transport> = Box::new(connect()?);
        Ok(Boot {
            transport: match meter {
                Some(meter) => Box::new(Metered::new(transport, Box::new(meter))),
                None => transport,
            },
            conditions: self.conditions(side, told.conditions),
            restarted: self.can_restart(),
            time_to_ready,
            cautions: cautions.iter().map(|caution| self.without_key(caution)).collect(),
        })
    }

    fn reset_caches(&mut self) -> Result<Reset, CliError> {
        let reset = caches::reset(&self.control()?, RESET_LIMIT, &self.flag()).map_err(|error| self.failed(&error))?;
        Ok(match reset {
            Reset::Done => Reset::Done,
            Reset::NotOffered(tried) => Reset::NotOffered(self.without_key(&tried)),
        })
    }
}

/// A declared condition, for deployments that servegate itself starts.
pub(crate) fn declared(pairs: impl IntoIterator<Item = (Condition, String)>) -> Conditions {
    pairs.into_iter().map(|(name, value)| (name, Known { value, source: Source::Declared })).collect()
}
