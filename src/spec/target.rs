//! Targets: the deployments that may be measured, from `servegate.yaml` and from flags.

use std::collections::BTreeMap;

use crate::base::diagnostic::Place;
use crate::base::names::{Api, Condition, HttpVersion};
use crate::base::units::Nanos;

/// A validated `servegate.yaml`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// Targets by name.
    pub targets: BTreeMap<String, Target>,
    /// Folder of the baselines; `baselines` by default.
    pub baselines: Option<String>,
    /// Folder of the reports; `servegate-out` by default.
    pub out: Option<String>,
}

/// One deployment to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Base URL, `http://` or `https://`, without the API's path.
    pub url: String,
    /// HTTP interface.
    pub api: Api,
    /// Model name to ask for.
    pub model: String,
    /// Name of the environment variable with the API key.
    pub api_key_env: Option<String>,
    /// File with a CA certificate (PEM) to trust beside the system's.
    pub ca_file: Option<String>,
    /// File with the model's tokenizer (Hugging Face `tokenizer.json`).
    pub tokenizer: Option<NamedFile>,
    /// The version of HTTP that is spoken.
    pub protocol: HttpVersion,
    /// A proxy that every connection is tunnelled through.
    pub proxy: Option<String>,
    /// The header that tells a router to which session a request belongs.
    pub session_header: Option<String>,
    /// How to restart the deployment.
    pub restart: Option<Restart>,
    /// How to see that it is ready.
    pub ready: Ready,
    /// Where it tells what it counts.
    pub metrics: MetricsPage,
    /// Extra fields of every request body (for instance `ignore_eos: true`), as JSON.
    pub extra_body: serde_json::Map<String, serde_json::Value>,
    /// Conditions the team declares.
    pub conditions: BTreeMap<Condition, String>,
}

/// A file that is named somewhere, and where, so that what is wrong with it is said at that place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// Its path.
    pub path: String,
    /// The key, or the option, that names it.
    pub key: String,
    /// Where; none on the command line.
    pub place: Option<Place>,
}

/// Where a deployment tells what it counts about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MetricsPage {
    /// `/metrics` beside the API, where there is one.
    #[default]
    Usual,
    /// Nowhere, or it must not be asked.
    Off,
    /// A path beside the API (`/prom`), or a whole URL.
    At(String),
}

/// A command that restarts the deployment. It gets `SERVEGATE_SIDE` and `SERVEGATE_RELEASE`, and it
/// returns when the old deployment is gone and the new one is starting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restart {
    /// Program and arguments; nothing is interpreted by a shell.
    pub command: Vec<String>,
    /// Longest time it may take.
    pub timeout: Nanos,
}

/// A readiness check: `GET path` answers 200.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Path, `/health` by default.
    pub path: String,
    /// Longest time from the restart's end.
    pub timeout: Nanos,
}

impl Default for Ready {
    fn default() -> Self {
        Self { path: "/health".to_owned(), timeout: Nanos::from_secs(600) }
    }
}
