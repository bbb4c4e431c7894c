//! Keeping the server's caches from answering a run with what earlier runs left, as the workload declares.

use std::borrow::Cow;

use crate::base::digest::ShortDigest;
use crate::base::names::{CacheMode, Caches};
use crate::cli::deployment::Deployment;
use crate::cli::error::CliError;
use crate::plan::RunName;
use crate::plan::request::Plan;
use crate::probe::caches::Reset;

/// What a run sends, and what was done about the caches.
pub(crate) struct Cold<'a> {
    /// The plan, with the run's own prompts where they are salted.
    pub(crate) plan: Cow<'a, Plan>,
    /// What keeps the caches from answering; none where nothing is declared.
    pub(crate) mode: Option<CacheMode>,
    /// The salt of the prompts.
    pub(crate) salt: Option<ShortDigest>,
    /// Why prompts were salted where the server might have reset its caches.
    pub(crate) fallback: Option<String>,
}

/// Does what the workload declares, after the boot and right before the first cell: nothing is in flight, and the first
/// request of the boot is the last that was cached.
pub(crate) fn cold<'a>(
    plan: &'a Plan,
    run: RunName<'_>,
    deployment: &mut dyn Deployment,
) -> Result<Cold<'a>, CliError> {
    let salted = |fallback| {
        let salt = plan.salt(run);
        let plan = Cow::Owned(plan.salted(salt));
        Cold { plan, mode: Some(CacheMode::Salted), salt: Some(ShortDigest(salt)), fallback }
    };
    let as_planned = |mode| Cold { plan: Cow::Borrowed(plan), mode, salt: None, fallback: None };
    let declared = match plan.caches {
        None => return Ok(as_planned(None)),
        Some(Caches::Salted) => return Ok(salted(None)),
        Some(declared @ (Caches::Reset | Caches::Cold)) => declared,
    };
    match deployment.reset_caches()? {
        Reset::Done => Ok(as_planned(Some(CacheMode::Reset))),
        Reset::NotOffered(tried) if declared == Caches::Cold => Ok(salted(Some(tried))),
        Reset::NotOffered(tried) => Err(not_offered(plan, &tried)),
    }
}

fn not_offered(plan: &Plan, tried: &str) -> CliError {
    CliError::failed(format!(
        "the workload `{}` declares `caches: reset`, and the server offers no request that resets its caches ({tried})",
        plan.workload
    ))
    .hint("vLLM offers it with VLLM_SERVER_DEV_MODE=1 in its environment, llama.cpp with `--slot-save-path DIR`")
    .hint("or declare `caches: salted`, for prompts that no earlier run sent, or `caches: cold`, for whichever can be had")
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::rc::Rc;

    use serde_json::Value;

    use super::*;
    use crate::artifact::run::Manifest;
    use crate::base::names::Side;
    use crate::base::units::Nanos;
    use crate::cli::Global;
    use crate::cli::deployment::{Boot, Speaks};
    use crate::cli::session::{Measured, Session};
    use crate::cli::signals::Interrupt;
    use crate::cli::simulated::Simulated;
    use crate::cli::terminal::Terminal;
    use crate::plan::prompt;
    use crate::sim::profile::Profile;
    use crate::sim::scenario::Scenario;
    use crate::spec::read_workload;
    use crate::wire::counters::Meter;
    use crate::wire::transport::{Outbound, SelfReport, Transport, Wake};

    /// What a deployment was asked for, in order.
    #[derive(Clone, Debug, PartialEq)]
    enum Asked {
        Boot,
        Reset,
        /// A request with this prompt.
        Prompt(String),
    }

    type Log = Rc<RefCell<Vec<Asked>>>;

    /// The simulated engine in virtual time; its caches can be reset, or not.
    struct Watched {
        engine: Simulated,
        reset: Result<Reset, &'static str>,
        log: Log,
    }

    impl Deployment for Watched {
        fn speaks(&self) -> &Speaks {
            self.engine.speaks()
        }

        fn can_restart(&self) -> bool {
            false
        }

        fn boot(&mut self, side: Side, release: &str, sequence: u32) -> Result<Boot, CliError> {
            self.log.borrow_mut().push(Asked::Boot);
            let boot = self.engine.boot(side, release, sequence)?;
            Ok(Boot { transport: Box::new(Tapped { transport: boot.transport, log: Rc::clone(&self.log) }), ..boot })
        }

        fn reset_caches(&mut self) -> Result<Reset, CliError> {
            self.log.borrow_mut().push(Asked::Reset);
            self.reset.clone().map_err(CliError::failed)
        }
    }

    /// A transport that writes down what is submitted.
    struct Tapped {
        transport: Box<dyn Transport>,
        log: Log,
    }

    impl Transport for Tapped {
        fn now(&self) -> Nanos {
            self.transport.now()
        }

        fn submit(&mut self, request: Outbound) {
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            let prompt = body["messages"][0]["content"].as_str().unwrap().to_owned();
            self.log.borrow_mut().push(Asked::Prompt(prompt));
            self.transport.submit(request);
        }

        fn wait(&mut self, until: Option<Nanos>) -> Wake {
            self.transport.wait(until)
        }

        fn abandon(&mut self) {
            self.transport.abandon();
        }

        fn report(&mut self) -> SelfReport {
            self.transport.report()
        }

        fn meter(&mut self) -> Option<&mut dyn Meter> {
            self.transport.meter()
        }
    }

    fn plan(caches: &str) -> Plan {
        let text = format!(
            "servegate: 1\nkind: workload\nname: tiny\n{caches}cells:\n  - {{name: c2, concurrency: 2, requests: 20, warmup: 4, \
             prompt_tokens: {{uniform: {{min: 16, max: 40}}}}, output_tokens: 8}}\n"
        );
        crate::plan::build(&read_workload("w.yaml", &text).unwrap().value)
    }

    /// Two runs of a session: their manifests, what was asked for in each, and what went wrong.
    fn two_runs(
        plan: &Plan,
        reset: Result<Reset, &'static str>,
        out: &Path,
    ) -> (Vec<Manifest>, Vec<Vec<Asked>>, Option<CliError>) {
        let log = Log::default();
        let interrupt = Interrupt::never();
        let scenario = Scenario::find("fp8-fused").unwrap();
        let engine = Simulated::new(Profile::h100_8b(), scenario, false, interrupt.clone());
        let mut deployment = Watched { engine, reset, log: Rc::clone(&log) };
        let runs = vec![(Side::Baseline, "v1".to_owned()); 2];
        let session = Session { plan, name: "s", runs, out, keep_text: false, kept: Vec::new() };
        let mut terminal = Terminal::new(Global { json: false, quiet: true, verbose: 0 });
        let Measured { runs, trouble } = session.measure(&mut deployment, &interrupt, &mut terminal);
        let log = log.borrow();
        let asked = log.split(|asked| *asked == Asked::Boot).skip(1).map(<[Asked]>::to_vec).collect();
        (runs.into_iter().map(|run| run.manifest).collect(), asked, trouble)
    }

    fn prompts(asked: &[Asked]) -> Vec<&str> {
        let mut prompts = Vec::new();
        for asked in asked {
            if let Asked::Prompt(prompt) = asked {
                prompts.push(prompt.as_str());
            }
        }
        prompts
    }

    /// The prompts of a plan of one cell, in the order in which they are sent.
    fn planned(plan: &Plan) -> Vec<String> {
        let cell = &plan.cells[0];
        cell.warmup.iter().chain(&cell.requests).map(|request| prompt::text(&request.prompt)).collect()
    }

    fn not_offered_here() -> Reset {
        Reset::NotOffered("POST /x: 404 Not Found".to_owned())
    }

    #[test]
    fn salted_runs_send_what_no_other_sent_and_their_manifests_give_it_again() {
        let folder = tempfile::tempdir().unwrap();
        for (caches, reset) in [("salted", Ok(Reset::Done)), ("cold", Ok(not_offered_here()))] {
            let plan = plan(&format!("caches: {caches}\n"));
            let (manifests, asked, trouble) = two_runs(&plan, reset, &folder.path().join(caches));
            assert!(trouble.is_none() && manifests.len() == 2);
            for (manifest, asked) in manifests.iter().zip(&asked) {
                assert_eq!((manifest.caches, manifest.plan), (Some(CacheMode::Salted), plan.fingerprint));
                assert_eq!(asked.contains(&Asked::Reset), caches == "cold", "who salts resets nothing");
                let salt = manifest.salt.unwrap();
                let Manifest { session, sequence, started, .. } = manifest;
                assert_eq!(plan.salt(RunName { session, sequence: *sequence, started }), salt.0);
                assert_eq!(prompts(asked)[..24], planned(&plan.salted(salt.0)), "warm-up and measured requests");
            }
            let heads = |asked: &[Asked]| -> BTreeSet<String> {
                let head = |prompt: &str| prompt.split(' ').take(4).collect::<Vec<_>>().join(" ");
                prompts(asked).into_iter().map(head).collect()
            };
            assert!(prompts(&asked[0]).len() >= 24 && heads(&asked[0]).is_disjoint(&heads(&asked[1])));
        }
    }

    #[test]
    fn a_reset_comes_before_the_first_request_of_each_run_and_the_prompts_are_the_plans() {
        let folder = tempfile::tempdir().unwrap();
        for caches in ["reset", "cold"] {
            let plan = plan(&format!("caches: {caches}\n"));
            let (manifests, asked, trouble) = two_runs(&plan, Ok(Reset::Done), &folder.path().join(caches));
            assert!(trouble.is_none() && manifests.len() == 2);
            for (manifest, asked) in manifests.iter().zip(&asked) {
                assert_eq!((manifest.caches, manifest.salt), (Some(CacheMode::Reset), None));
                assert_eq!(asked.iter().position(|asked| *asked == Asked::Reset), Some(0));
                assert_eq!(asked.iter().filter(|asked| **asked == Asked::Reset).count(), 1);
                assert_eq!(prompts(asked)[..24], planned(&plan));
            }
        }
        let (manifests, asked, _) = two_runs(&plan(""), Err("nobody asks"), &folder.path().join("undeclared"));
        assert_eq!((manifests[0].caches, manifests[1].salt, manifests.len()), (None, None, 2));
        assert_eq!(prompts(&asked[0]), prompts(&asked[1]));
    }

    #[test]
    fn what_was_declared_and_cannot_be_done_is_an_error_before_anything_is_measured() {
        let folder = tempfile::tempdir().unwrap();
        for (caches, reset, says) in [
            (
                "reset",
                Ok(not_offered_here()),
                "the workload `tiny` declares `caches: reset`, and the server offers no request",
            ),
            ("reset", Err("it failed"), "it failed"),
            ("cold", Err("it failed"), "it failed"),
        ] {
            let out = folder.path().join("out");
            let (manifests, asked, trouble) = two_runs(&plan(&format!("caches: {caches}\n")), reset, &out);
            assert!(trouble.unwrap().message().starts_with(says));
            assert_eq!((manifests.len(), asked), (0, vec![vec![Asked::Reset]]));
            assert!(!out.exists(), "{caches}: nothing was measured");
        }
    }
}
