//! Options that name a target: an entry of `servegate.yaml`, or a URL on the command line.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser, TypedValueParser as _};

use crate::base::names::{Api, HttpVersion};
use crate::cli::error::CliError;
use crate::cli::files;
use crate::spec::target::{Config, MetricsPage, NamedFile, Ready, Target};
use crate::spec::{self, WrongOption};

/// Which deployment to measure.
#[derive(clap::Args)]
// clap would put every option of this struct into one group; which of the two is needed says `target` itself.
#[group(skip)]
pub(crate) struct TargetArgs {
    /// A target of servegate.yaml
    #[arg(long, value_name = "NAME", required_unless_present = "url", conflicts_with = "url")]
    target: Option<String>,

    /// Base URL of a target that is not in servegate.yaml, such as `http://127.0.0.1:8000`
    #[arg(long, requires = "model", value_parser = NonEmptyStringValueParser::new())]
    url: Option<String>,

    /// With --url: the model to ask for
    #[arg(long, requires = "url", conflicts_with = "target", value_parser = NonEmptyStringValueParser::new())]
    model: Option<String>,

    /// With --url: the HTTP interface
    #[arg(long, value_parser = api_parser(), default_value_t = Api::Chat, requires = "url", conflicts_with = "target")]
    api: Api,

    /// With --url: the environment variable that holds the API key
    #[arg(long, requires = "url", conflicts_with = "target", value_name = "VARIABLE")]
    api_key_env: Option<String>,

    /// With --url: the model's tokenizer.json, which counts answers that come without usage
    #[arg(long, requires = "url", conflicts_with = "target", value_name = "FILE")]
    tokenizer: Option<PathBuf>,

    /// With --url: ask for answers of exactly the planned length (`ignore_eos`: vLLM, SGLang, llama.cpp)
    #[arg(long, requires = "url", conflicts_with = "target")]
    ignore_eos: bool,

    /// Config file [default: servegate.yaml, where there is one]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

fn api_parser() -> impl clap::builder::TypedValueParser<Value = Api> {
    PossibleValuesParser::new(Api::ALL.iter().map(|api| api.id()))
        .try_map(|name| Api::from_id(&name).ok_or("no interface of this name"))
}

impl TargetArgs {
    /// The config file, or its defaults.
    pub(crate) fn config(&self) -> Result<Config, CliError> {
        files::config(self.config.as_deref())
    }

    /// The options again, as words of a command line.
    pub(crate) fn words(&self) -> Vec<String> {
        let config = self.config.as_ref().map(|path| path.display().to_string());
        let api = self.url.as_ref().filter(|_| self.api != Api::Chat).map(|_| self.api.id().to_owned());
        let options = [
            ("--config", config),
            ("--target", self.target.clone()),
            ("--url", self.url.clone()),
            ("--model", self.model.clone()),
            ("--api", api),
            ("--api-key-env", self.api_key_env.clone()),
        ];
        let given = options.into_iter().filter_map(|(option, value)| Some([option.to_owned(), value?]));
        given.flatten().chain(self.ignore_eos.then(|| "--ignore-eos".to_owned())).collect()
    }

    /// The target.
    pub(crate) fn target(&self, config: &Config) -> Result<Target, CliError> {
        if let Some(name) = &self.target {
            return files::target(config, name);
        }
        let mut extra_body = serde_json::Map::new();
        if self.ignore_eos && !self.api.forces_length() {
            let message = format!("--ignore-eos: servers of the `{}` interface cannot force the length", self.api);
            return Err(CliError::usage(message).hint("leave it out; answers may then end before the planned length"));
        }
        if self.ignore_eos {
            extra_body.insert("ignore_eos".to_owned(), true.into());
        }
        Ok(Target {
            url: spec::check_url(self.url.as_deref().unwrap_or_default()).map_err(wrong_url)?,
            api: self.api,
            model: self.model.clone().unwrap_or_default(),
            api_key_env: self.api_key_env.clone(),
            ca_file: None,
            tokenizer: self.tokenizer.as_ref().map(|path| NamedFile {
                path: path.display().to_string(),
                key: "--tokenizer".to_owned(),
                place: None,
            }),
            protocol: HttpVersion::default(),
            proxy: None,
            session_header: None,
            restart: None,
            ready: Ready::default(),
            metrics: MetricsPage::default(),
            extra_body,
            conditions: BTreeMap::new(),
        })
    }
}

fn wrong_url(WrongOption { message, help }: WrongOption) -> CliError {
    CliError::usage(format!("--url: {message}")).hint(help)
}
