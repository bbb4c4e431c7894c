//! Prompts that no earlier run sent. A salt makes the prompts of a plan others, of the same lengths, at the same instants,
//! in the same order.

use crate::base::rng::Stream;
use crate::plan::request::{Plan, PlannedRequest, PromptRecipe};

/// A run, as its manifest names it.
#[derive(Clone, Copy, Debug)]
pub struct RunName<'a> {
    /// Name of the session.
    pub session: &'a str,
    /// Position among the session's runs.
    pub sequence: u32,
    /// When it started. A run that is measured again under its own number starts at another time.
    pub started: &'a str,
}

impl Plan {
    /// The salt of a run: the first draw of the stream `salt/<workload>/<session>/<sequence>/<started>` under the plan's seed.
    pub fn salt(&self, run: RunName<'_>) -> u64 {
        let RunName { session, sequence, started } = run;
        Stream::named(self.seed, &format!("salt/{}/{session}/{sequence}/{started}", self.workload)).bits()
    }

    /// The plan with other prompts. What differs in the plan still differs and what is shared is still shared, because
    /// the salt changes every seed in the same bits. The fingerprint stays that of the plan.
    #[must_use]
    pub fn salted(&self, salt: u64) -> Self {
        let mut plan = self.clone();
        for cell in &mut plan.cells {
            for PlannedRequest { prompt, .. } in cell.warmup.iter_mut().chain(&mut cell.requests) {
                let PromptRecipe { seed, prefix, .. } = prompt;
                *seed ^= salt;
                for part in prefix {
                    part.seed ^= salt;
                }
            }
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::plan::{build, prompt};
    use crate::spec::read_workload;

    const WORKLOAD: &str = "servegate: 1\nkind: workload\nname: salty\ncaches: salted\ncells:
  - {name: c4, concurrency: 4, requests: 60, warmup: 12, prompt_tokens: {uniform: {min: 16, max: 64}}, output_tokens: 8}
  - name: shared
    rate: 4/s
    requests: 60
    prompt_tokens: 40
    output_tokens: 8
    shared_prefix: {groups: 3, tokens: 20}
";

    fn plan(keys: &str) -> Plan {
        build(&read_workload("w.yaml", &WORKLOAD.replace("caches: salted\n", keys)).unwrap().value)
    }

    /// The prompts as they are sent, fillers included.
    fn prompts(plan: &Plan) -> Vec<Vec<String>> {
        let sent = |recipe: &PromptRecipe| match prompt::ids(recipe) {
            Some(ids) => ids.iter().map(ToString::to_string).collect(),
            None => prompt::text(recipe).split(' ').map(str::to_owned).collect(),
        };
        let in_cell = plan.cells.iter().flat_map(|cell| {
            let fillers = (0..20).filter_map(|n| cell.filler(n));
            cell.warmup.iter().chain(&cell.requests).cloned().chain(fillers).collect::<Vec<_>>()
        });
        in_cell.map(|request| sent(&request.prompt)).collect()
    }

    fn heads(prompts: &[Vec<String>]) -> BTreeSet<&[String]> {
        prompts.iter().map(|prompt| &prompt[..4]).collect()
    }

    #[test]
    fn two_runs_share_no_leading_words_and_a_salt_gives_the_same_prompts_again() {
        for keys in ["caches: salted\n", "prompts: token_ids\nvocabulary: 32000\n"] {
            let plan = plan(keys);
            let salt = |sequence| plan.salt(RunName { session: "s", sequence, started: "2026-01-01T00:00:00Z" });
            let salted = [plan.clone(), plan.salted(salt(0)), plan.salted(salt(1))];
            let sent = salted.each_ref().map(prompts);
            for (one, other) in [(0, 1), (0, 2), (1, 2)] {
                assert!(heads(&sent[one]).is_disjoint(&heads(&sent[other])), "{keys}: {one} and {other}");
                let lengths = |at: usize| sent[at].iter().map(Vec::len).collect::<Vec<_>>();
                assert_eq!(lengths(one), lengths(other));
            }
            assert_eq!(prompts(&plan.salted(salt(1))), sent[2]);
        }
    }

    #[test]
    fn all_but_the_prompts_stays_the_plans() {
        let plan = plan("caches: salted\n");
        let salted = plan.salted(77);
        assert_eq!(salted.fingerprint, plan.fingerprint);
        assert_eq!(salted.salted(77), plan, "nothing but seeds was changed");
        let shape = |plan: &Plan| {
            let requests = plan.cells.iter().flat_map(|cell| cell.warmup.iter().chain(&cell.requests));
            requests.map(|it| (it.number, it.prompt.words, it.output_tokens, it.due)).collect::<Vec<_>>()
        };
        assert_eq!(shape(&salted), shape(&plan));
    }

    #[test]
    fn what_is_shared_in_the_plan_is_shared_in_a_run_and_nothing_else() {
        let salted = plan("caches: salted\n").salted(0x9e37_79b9_7f4a_7c15);
        let (c4, shared) = (&salted.cells[0], &salted.cells[1]);
        let text = |request: &PlannedRequest| prompt::text(&request.prompt);
        let prefixes: BTreeSet<String> = (shared.warmup.iter().chain(&shared.requests))
            .map(|request| text(request).split(' ').take(20).collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(prefixes.len(), 3, "warm-up and measured requests share the same three");
        let own: BTreeSet<String> = c4.warmup.iter().chain(&c4.requests).map(text).collect();
        assert_eq!(own.len(), 72);
    }

    #[test]
    fn a_salt_is_that_of_one_run_of_one_workload() {
        let base = RunName { session: "s", sequence: 0, started: "2026-01-01T00:00:00Z" };
        let plan = plan("caches: salted\n");
        let others = [
            plan.salt(RunName { session: "t", ..base }),
            plan.salt(RunName { sequence: 1, ..base }),
            plan.salt(RunName { started: "2026-01-01T00:00:01Z", ..base }),
            Plan { seed: 2, ..plan.clone() }.salt(base),
            Plan { workload: "other".to_owned(), ..plan.clone() }.salt(base),
        ];
        // Pinned: stored runs are rebuilt with it.
        insta::assert_snapshot!(format!("{:016x}", plan.salt(base)), @"f02c9cf34702fef7");
        assert!(others.iter().all(|other| *other != plan.salt(base)));
        assert_eq!(BTreeSet::from(others).len(), others.len());
    }

    #[test]
    fn the_declared_mode_is_no_part_of_the_fingerprint() {
        assert_eq!(plan("").fingerprint, plan("caches: reset\n").fingerprint);
    }
}
