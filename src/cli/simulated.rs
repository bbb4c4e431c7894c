//! The simulated engine as a deployment: in virtual time without a socket, or in real time over HTTP.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::thread;

use serde_json::Map;
use tokio::runtime;
use tokio::sync::oneshot;

use crate::artifact::run::ClockKind;
use crate::base::names::{Api, Condition, Side};
use crate::base::rng::Stream;
use crate::cli::deployment::{Boot, Deployment, Speaks, declared};
use crate::cli::error::CliError;
use crate::cli::signals::Interrupt;
use crate::loadgen::http::{HttpTarget, HttpTransport};
use crate::probe::caches::Reset;
use crate::sim;
use crate::sim::noise::Noise;
use crate::sim::profile::Profile;
use crate::sim::scenario::Scenario;
use crate::sim::server::{Options, Server};
use crate::sim::transport::SimTransport;
use crate::wire::transport::Transport;

/// A simulated deployment whose candidate differs from its baseline by a scenario.
pub(crate) struct Simulated {
    profile: Profile,
    scenario: &'static Scenario,
    speaks: Speaks,
    session: u64,
    real_time: bool,
    /// Keeps the server of the present boot alive.
    server: Option<oneshot::Sender<()>>,
    interrupt: Interrupt,
}

impl Simulated {
    /// The preset's engine; the candidate has the scenario's change.
    pub(crate) fn new(profile: Profile, scenario: &'static Scenario, real_time: bool, interrupt: Interrupt) -> Self {
        let mut extra_body = Map::new();
        extra_body.insert("ignore_eos".to_owned(), true.into());
        let clock = if real_time { ClockKind::Http } else { ClockKind::Simulated };
        let speaks = Speaks {
            api: Api::Chat,
            model: profile.model.to_owned(),
            extra_body,
            clock,
            api_key: None,
            tokenizer: None,
        };
        Self { profile, scenario, speaks, session: 0, real_time, server: None, interrupt }
    }

    /// Moves to another allocation of hardware: all its boots are a little faster or slower together.
    pub(crate) fn enter_session(&mut self, name: &str) {
        self.session = Stream::named(0, &format!("simulated/{name}")).bits();
    }

    fn deployment(&self, side: Side, sequence: u32) -> Result<sim::Deployment, CliError> {
        let boot = Stream::named(self.session, &format!("boot/{sequence}")).bits();
        let mut deployment = sim::Deployment::new(self.profile.clone(), Noise::seeded(self.session, boot));
        if side == Side::Candidate {
            self.scenario.apply(&mut deployment).map_err(|error| CliError::failed(error.to_string()))?;
        }
        Ok(deployment)
    }

    /// Starts the server of one boot on a free port and gives its address; the server of the boot before ends.
    fn serve(&mut self, deployment: sim::Deployment) -> Result<SocketAddr, CliError> {
        let failed =
            |what: &dyn std::fmt::Display| CliError::failed(format!("cannot start the simulated server: {what}"));
        let (stop, stopped) = oneshot::channel();
        let (told, address) = oneshot::channel();
        let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(|error| failed(&error))?;
        let body = move || {
            runtime.block_on(async move {
                let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
                match Server::bind(any, &deployment, Options::default()).await {
                    Ok(server) => {
                        // Nobody waits for the address any more only when the boot was given up.
                        if told.send(Ok(server.addr())).is_ok() {
                            server.serve(async { drop(stopped.await) }).await;
                        }
                    }
                    Err(error) => drop(told.send(Err(error))),
                }
            });
        };
        thread::Builder::new().name("simulated".to_owned()).spawn(body).map_err(|error| failed(&error))?;
        self.server = Some(stop);
        match address.blocking_recv() {
            Ok(Ok(address)) => Ok(address),
            Ok(Err(error)) => Err(failed(&error)),
            Err(error) => Err(failed(&error)),
        }
    }
}

impl Deployment for Simulated {
    fn speaks(&self) -> &Speaks {
        &self.speaks
    }

    fn can_restart(&self) -> bool {
        true
    }

    fn boot(&mut self, side: Side, _release: &str, sequence: u32) -> Result<Boot, CliError> {
        let deployment = self.deployment(side, sequence)?;
        let kv_cache = if side == Side::Candidate { self.scenario.name } else { "bf16" };
        let conditions = declared([
            (Condition::Model, self.profile.model.to_owned()),
            (Condition::Engine, "servegate-sim".to_owned()),
            (Condition::Hardware, format!("simulated {}", self.profile.name)),
            (Condition::KvCacheDtype, kv_cache.to_owned()),
        ]);
        let transport: Box<dyn Transport> = if self.real_time {
            let address = self.serve(deployment)?;
            let target = HttpTarget { url: format!("http://{address}"), ..HttpTarget::default() };
            let transport = HttpTransport::connect(&target, self.interrupt.flag());
            Box::new(transport.map_err(|error| CliError::failed(error.to_string()))?)
        } else {
            Box::new(SimTransport::new(&deployment, self.interrupt.flag()))
        };
        Ok(Boot { transport, conditions, restarted: true, time_to_ready: None, cautions: Vec::new() })
    }

    /// Every run is a boot of its own: its caches are empty.
    fn reset_caches(&mut self) -> Result<Reset, CliError> {
        Ok(Reset::Done)
    }
}
