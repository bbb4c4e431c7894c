//! `servegate sim`: the simulated engine over HTTP, and its scenarios.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Subcommand;
use serde_json::json;

use crate::cli::error::{CliError, Exit};
use crate::cli::signals::Interrupt;
use crate::cli::terminal::Terminal;
use crate::sim::Deployment;
use crate::sim::fault::{Fault, Share};
use crate::sim::noise::Noise;
use crate::sim::profile::{PRESETS, Profile, SetError};
use crate::sim::scenario::{Expected, Must, SCENARIOS, Scenario};
use crate::sim::server::{Options, Readiness, Server};

/// The signal flag is looked at this often.
const POLL: Duration = Duration::from_millis(50);

/// The simulated engine
///
/// Example: servegate sim list
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(ServeArgs),
    /// List presets, parameters, scenarios and faults
    ///
    /// Example: servegate sim list --json
    List,
}

/// Serve a simulated deployment over HTTP, in real time, with OpenAI's endpoints and vLLM's metrics
///
/// Example: servegate sim serve --scenario fp8-unfused --port 8000
#[derive(clap::Args)]
struct ServeArgs {
    /// Preset of the engine
    #[arg(long, default_value = "h100-8b")]
    profile: String,

    /// A change of the deployment, by id or name
    #[arg(long)]
    scenario: Option<String>,

    /// A parameter of the engine
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,

    /// A share of requests that is answered wrongly, such as cut-stream=0.1
    #[arg(long, value_name = "FAULT=SHARE")]
    fault: Vec<String>,

    /// Seed of the noise of this boot; without it there is none
    #[arg(long)]
    seed: Option<u64>,

    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    host: std::net::IpAddr,

    /// Port; 0 takes a free one
    #[arg(long, default_value_t = 8000)]
    port: u16,

    /// Ask for this key: the environment variable that holds it
    #[arg(long, value_name = "VARIABLE")]
    api_key_env: Option<String>,

    /// Answer 503 for so many seconds after the start
    #[arg(long, default_value_t = 0.0, value_name = "SECONDS")]
    ready_after: f64,
}

/// Dispatches.
pub(crate) fn run(args: &Args, terminal: &mut Terminal) -> Result<Exit, CliError> {
    match &args.command {
        Command::Serve(args) => serve(args, terminal),
        Command::List => list(terminal),
    }
}

fn deployment(args: &ServeArgs) -> Result<Deployment, CliError> {
    let usage = |error: SetError| CliError::usage(error.to_string());
    let profile = Profile::preset(&args.profile).ok_or_else(|| {
        let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        CliError::usage(format!("no preset `{}`: choose one of {}", args.profile.escape_debug(), names.join(", ")))
    })?;
    let noise = args.seed.map_or(Noise::OFF, |seed| Noise::seeded(seed, seed));
    let mut deployment = Deployment::new(profile, noise);
    if let Some(name) = &args.scenario {
        let scenario = Scenario::find(name).ok_or_else(|| {
            let error = CliError::usage(format!("no scenario `{}`", name.escape_debug()));
            error.hint("servegate sim list shows all of them")
        })?;
        scenario.apply(&mut deployment).map_err(usage)?;
    }
    for assignment in &args.set {
        deployment.profile.set(assignment).map_err(usage)?;
    }
    for text in &args.fault {
        deployment.faults.push(fault(text)?);
    }
    Ok(deployment)
}

fn fault(text: &str) -> Result<Share, CliError> {
    let split = text.split_once('=').map_or((text, "1"), |(name, share)| (name, share));
    let share = split.1.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    Fault::from_id(split.0).zip(share).map(|(fault, share)| Share { fault, share }).ok_or_else(|| {
        let names: Vec<&str> = Fault::ALL.iter().map(|fault| fault.id()).collect();
        let error = CliError::usage(format!("`{}` is no fault with a share from 0 to 1", text.escape_debug()));
        error.hint(format!("write FAULT=SHARE; faults are {}", names.join(", ")))
    })
}

fn serve(args: &ServeArgs, terminal: &mut Terminal) -> Result<Exit, CliError> {
    let deployment = deployment(args)?;
    let api_key = match &args.api_key_env {
        Some(variable) => Some(std::env::var_os(variable).and_then(|key| key.into_string().ok()).ok_or_else(|| {
            CliError::failed(format!("the environment variable `{}` is not set", variable.escape_debug()))
        })?),
        None => None,
    };
    let delay = Duration::try_from_secs_f64(args.ready_after)
        .map_err(|error| CliError::usage(format!("--ready-after: {error}")))?;
    let options = Options { api_key, readiness: Readiness::After(delay) };
    let interrupt = Interrupt::listen()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| CliError::failed(format!("cannot start the server: {error}")))?;
    runtime.block_on(async {
        let address = SocketAddr::new(args.host, args.port);
        let server = Server::bind(address, &deployment, options).await;
        let server = server.map_err(|error| CliError::failed(error.to_string()))?;
        let model = deployment.profile.model;
        terminal.say(&format!("SIMULATED engine, not a real one: preset {}, model {model}", deployment.profile.name));
        terminal.data(format!("http://{}\n", server.addr()).as_bytes())?;
        let flag = interrupt.flag();
        let stop = async {
            while !flag.load(Ordering::Acquire) {
                tokio::time::sleep(POLL).await;
            }
        };
        server.serve(stop).await;
        Ok(interrupt.exit().unwrap_or(Exit::Success))
    })
}

fn list(terminal: &mut Terminal) -> Result<Exit, CliError> {
    let must = |must| match must {
        Must::Catch => "must be caught",
        Must::Pass => "must pass",
    };
    if terminal.json() {
        let scenario = |one: &Scenario| {
            let effect = |expected: &Expected| json!({ "cell": expected.cell, "metric": expected.metric, "effect": expected.effect });
            let expected: Vec<_> = one.expected.iter().map(effect).collect();
            json!({ "id": one.id, "name": one.name, "mirrors": one.mirrors, "must": must(one.must), "expected": expected })
        };
        let presets: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        let faults: Vec<&str> = Fault::ALL.iter().map(|fault| fault.id()).collect();
        let scenarios: Vec<_> = SCENARIOS.iter().map(scenario).collect();
        let all = json!({ "presets": presets, "parameters": Profile::NAMES, "scenarios": scenarios, "faults": faults });
        terminal.data_json(&all)?;
        return Ok(Exit::Success);
    }
    let mut text = String::from("presets:\n");
    let mut line = |content: String| {
        // Writing to a String cannot fail.
        let _infallible = writeln!(text, "{content}");
    };
    for preset in PRESETS {
        line(format!("  {}  ({})", preset.name, preset.model));
    }
    line("scenarios:".to_owned());
    for one in SCENARIOS {
        line(format!("  {} {}: {}; {}", one.id, one.name, must(one.must), one.mirrors));
        for expected in one.expected {
            line(format!("      {} p50 at {}: {:+.1} %", expected.metric, expected.cell, expected.effect * 100.0));
        }
    }
    line("faults (--fault NAME=SHARE):".to_owned());
    for fault in Fault::ALL {
        line(format!("  {}", fault.id()));
    }
    line(format!("parameters (--set NAME=VALUE): {}", Profile::NAMES.join(", ")));
    terminal.data(text.as_bytes())?;
    Ok(Exit::Success)
}
