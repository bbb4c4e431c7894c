//! Makes the plan of a workload.
//!
//! Every purpose in every cell draws from a stream of its own, named `purpose/cell`: a new cell, more
//! requests, or another output length leaves all that was planned before as it was.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::rng::Stream;
use crate::base::units::Nanos;
use crate::plan::lengths::Draws;
use crate::plan::prefixes::Prefixes;
use crate::plan::replay::Traces;
use crate::plan::request::{Form, Plan, PlannedCell, PlannedRequest, PromptRecipe};
use crate::plan::{arrivals, fingerprint, mixture, repeats, replay};
use crate::spec::workload::{Cell, Class, Load, Phase, Workload};

/// The exact requests of a workload that replays no trace. The same workload always gives the same plan.
pub fn build(workload: &Workload) -> Plan {
    build_with(workload, &Traces::new())
}

/// The exact requests of a workload. The same workload and traces always give the same plan. A cell has no requests where
/// its trace is not among `traces`; that a trace has what its cell asks for, [`replay::fit`] has seen to.
pub fn build_with(workload: &Workload, traces: &Traces) -> Plan {
    let cells: Vec<PlannedCell> = workload.cells.iter().map(|cell| plan_cell(cell, workload, traces)).collect();
    let fingerprint = fingerprint::of(&cells);
    Plan { workload: workload.name.clone(), seed: workload.seed, caches: workload.caches, cells, fingerprint }
}

/// The order in which a run visits the plan's cells, as indices into [`Plan::cells`]. It depends on the
/// seed and the cells' names, not on their order in the file. The phases of a cell stay together, and a cell
/// with a cold phase comes first: what is to be cold must not be warmed by the others.
pub fn order(plan: &Plan, run_seed: u64) -> Vec<usize> {
    let mut lines: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, cell) in plan.cells.iter().enumerate() {
        lines.entry(Phase::cell(&cell.name)).or_default().push(index);
    }
    let mut lines: Vec<Vec<usize>> = lines.into_values().collect();
    Stream::named(run_seed, "order").shuffle(&mut lines);
    let is_cold = |at: &usize| plan.cells.get(*at).is_some_and(|cell| cell.phase == Phase::Cold);
    lines.sort_by_key(|line| !line.iter().any(is_cold));
    lines.concat()
}

fn plan_cell(cell: &Cell, workload: &Workload, traces: &Traces) -> PlannedCell {
    let [warmup, requests] = match &cell.trace {
        Some(replay) => {
            traces.get(&replay.file.path).map_or_else(Default::default, |trace| replay::requests(cell, trace, workload))
        }
        None => drawn(cell, workload),
    };
    PlannedCell {
        name: cell.name.clone(),
        phase: cell.phase,
        load: cell.load,
        requests,
        warmup,
        max_connections: cell.max_connections,
        timeout: cell.timeout,
        stall_timeout: cell.stall_timeout,
    }
}

/// Warm-up and measured requests of a cell, drawn from what it says.
fn drawn(cell: &Cell, workload: &Workload) -> [Vec<PlannedRequest>; 2] {
    let seed = workload.seed;
    let total = cell.warmup.saturating_add(cell.requests);
    let mut due = arrivals::due(cell.load, total, &mut Stream::named(seed, &format!("arrivals/{}", cell.name)));
    let measured_due = due.split_off(due.len().min(usize::try_from(cell.warmup).unwrap_or(usize::MAX)));
    let mut warmup = Shapes::new(cell, workload, "warmup-").requests(cell.requests, due);
    let mut measured = Shapes::new(cell, workload, "").requests(0, measured_due);
    repeats::repeat(cell, &mut warmup, &mut measured);
    if let Load::Closed { concurrency } = cell.load {
        put_out_of_step(&mut warmup, concurrency);
    }
    [warmup, measured]
}

/// Cuts the answer of each slot's first request to another part of its length. Slots that start together
/// would finish together, and a cell would spend its measured window falling out of step.
fn put_out_of_step(warmup: &mut [PlannedRequest], concurrency: u32) {
    for (slot, request) in (1..=concurrency).zip(warmup) {
        let part = u64::from(request.output_tokens) * u64::from(slot);
        request.output_tokens =
            u32::try_from(part.div_ceil(concurrency.max(1).into())).unwrap_or(request.output_tokens);
    }
}

/// Draws the requests of one cell, class by class.
struct Shapes<'a> {
    classes: Vec<Shape<'a>>,
    order: Stream,
    shares: &'a [Class],
}

impl<'a> Shapes<'a> {
    /// `kind` sets the warm-up's streams apart from the measured requests'.
    fn new(cell: &'a Cell, workload: &Workload, kind: &str) -> Self {
        let seed = workload.seed;
        Self {
            classes: cell
                .classes
                .iter()
                .map(|class| Shape::new(&cell.name, class, (seed, kind), Form::of(workload.prompts, class)))
                .collect(),
            order: Stream::named(seed, &format!("{kind}classes/{}", cell.name)),
            shares: &cell.classes,
        }
    }

    /// One request per due instant, numbered from `first`.
    fn requests(mut self, first: u32, due: Vec<Option<Nanos>>) -> Vec<PlannedRequest> {
        let order = mixture::order(self.shares, due.len(), &mut self.order);
        let mut request = |(number, (due, class)): (u32, (Option<Nanos>, usize))| {
            Some(self.classes.get_mut(class)?.request(number, due))
        };
        (first..).zip(due.into_iter().zip(order)).filter_map(&mut request).collect()
    }
}

/// Draws request shapes of one class.
struct Shape<'a> {
    name: Option<Arc<str>>,
    prompt_lengths: Draws<'a>,
    output_lengths: Draws<'a>,
    prompts: Stream,
    prefixes: Prefixes,
    form: Form,
}

impl<'a> Shape<'a> {
    /// A class has streams named after it, so that one class more leaves the draws of the others as they were.
    fn new(cell: &str, class: &'a Class, (seed, kind): (u64, &str), form: Form) -> Self {
        let place = class.name.as_ref().map_or_else(|| cell.to_owned(), |class| format!("{cell}/{class}"));
        let stream = |purpose: &str| Stream::named(seed, &format!("{kind}{purpose}/{place}"));
        Self {
            name: class.name.as_deref().map(Arc::from),
            prompt_lengths: Draws::new(&class.prompt_tokens, stream("lengths")),
            output_lengths: Draws::new(&class.output_tokens, stream("output-lengths")),
            prompts: stream("prompts"),
            prefixes: Prefixes::new(class.shared_prefix, (seed, &place), stream("groups")),
            form,
        }
    }

    fn request(&mut self, number: u32, due: Option<Nanos>) -> PlannedRequest {
        let words = self.prompt_lengths.next();
        let prefix = self.prefixes.next(words);
        PlannedRequest {
            number,
            class: self.name.clone(),
            prompt: PromptRecipe { seed: self.prompts.bits(), words, prefix, form: self.form },
            output_tokens: self.output_lengths.next(),
            due,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::plan::prompt;
    use crate::spec::workload::{Burst, Content, Lengths, Prompts, SharedPrefix};

    fn cell(name: &str, load: Load) -> Cell {
        Cell {
            name: name.to_owned(),
            phase: Phase::Steady,
            load,
            requests: 40,
            warmup: 8,
            trace: None,
            classes: vec![Class::only(
                Lengths::Uniform { min: 16, max: 64 },
                Lengths::LogNormal { median: 100.0, sigma: 0.5, min: 10, max: 500 },
            )],
            max_connections: None,
            timeout: Nanos::from_secs(60),
            stall_timeout: Nanos::from_secs(10),
        }
    }

    fn workload(seed: u64, cells: Vec<Cell>) -> Workload {
        Workload {
            name: "small".to_owned(),
            description: String::new(),
            prompts: Prompts::Text,
            caches: None,
            seed,
            cells,
        }
    }

    fn small() -> Workload {
        let closed = cell("c8", Load::Closed { concurrency: 8 });
        let mut shared = closed.clone();
        shared.classes[0].shared_prefix = Some(SharedPrefix { groups: 3, tokens: 12, zipf: None, system_tokens: 0 });
        workload(
            1,
            vec![
                closed,
                cell("r4", Load::Poisson { rate: 4.0 }),
                Cell { name: "prefix".to_owned(), load: Load::Constant { rate: 2.0 }, ..shared },
            ],
        )
    }

    #[test]
    fn the_fingerprint_of_a_small_workload_is_pinned() {
        // A change of this digest makes every stored baseline incomparable: raise the generator's version.
        insta::assert_snapshot!(build(&small()).fingerprint.to_string(), @"sha256:1360a1d47e5d28a016796d86c3a2fac8b7063a5e35280dc5eeb0aa4cf45dddbf");
    }

    #[test]
    fn numbers_are_unique_and_warm_up_takes_the_first_arrivals() {
        let plan = build(&small());
        for cell in &plan.cells {
            let numbers: Vec<u32> = cell.requests.iter().chain(&cell.warmup).map(|r| r.number).collect();
            assert_eq!(numbers, (0..48).collect::<Vec<_>>());
            let due: Vec<_> = cell.warmup.iter().chain(&cell.requests).map(|r| r.due).collect();
            assert!(due.is_sorted());
            assert_eq!(due.iter().any(Option::is_none), cell.name == "c8");
        }
        assert_eq!(plan.cells[2].warmup[0].due, Some(Nanos::ZERO));
        assert_eq!(plan.cells[2].requests[0].due, Some(Nanos::from_secs(4)));
    }

    #[test]
    fn the_first_answers_of_a_closed_loop_end_one_after_the_other() {
        let mut workload = small();
        workload.cells[0].classes[0].output_tokens = Lengths::Fixed(80);
        let plan = build(&workload);
        let lengths: Vec<u32> = plan.cells[0].warmup.iter().map(|request| request.output_tokens).collect();
        assert_eq!(lengths, [10, 20, 30, 40, 50, 60, 70, 80]);
    }

    #[test]
    fn no_two_prompts_share_their_first_sixteen_words_and_fillers_are_new_too() {
        let plan = build(&small());
        let mut heads = BTreeSet::new();
        let mut count = 0;
        for cell in plan.cells.iter().filter(|cell| cell.name != "prefix") {
            let fillers = (0..100).filter_map(|n| cell.filler(n));
            for request in cell.warmup.iter().chain(&cell.requests).cloned().chain(fillers) {
                let text = prompt::text(&request.prompt);
                heads.insert(text.split(' ').take(16).collect::<Vec<_>>().join(" "));
                count += 1;
            }
        }
        assert_eq!((heads.len(), count), (296, 296));
    }

    #[test]
    fn shared_prefixes_are_as_many_as_the_groups() {
        let plan = build(&small());
        let prefixes: BTreeSet<String> = (plan.cells[2].requests.iter().chain(&plan.cells[2].warmup))
            .map(|r| prompt::text(&r.prompt).split(' ').take(12).collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(prefixes.len(), 3);
    }

    #[test]
    fn a_cell_is_not_changed_by_its_neighbours_or_by_its_output_length() {
        let plan = build(&small());
        let mut fewer = small();
        fewer.cells.remove(0);
        fewer.cells[0].classes[0].output_tokens = Lengths::Fixed(9);
        fewer.cells[0].requests = 20;
        let other = build(&fewer);
        let prompts = |cell: &PlannedCell| cell.requests.iter().take(20).map(|r| r.prompt.clone()).collect::<Vec<_>>();
        assert_eq!(prompts(&plan.cells[1]), prompts(&other.cells[0]));
        assert_eq!(plan.cells[1].requests[19].due, other.cells[0].requests[19].due);
    }

    #[test]
    fn the_fingerprint_sees_what_is_sent_and_not_the_order_of_the_file() {
        let base = build(&small()).fingerprint;
        let mut same = small();
        same.cells.reverse();
        same.name = "renamed".to_owned();
        assert_eq!(build(&same).fingerprint, base);
        let of = |prompts| build(&Workload { prompts, ..small() }).fingerprint;
        let ids = |vocabulary| of(Prompts::TokenIds { vocabulary });
        assert_eq!(of(Prompts::Text), base);
        assert!(ids(32_000) != base && ids(32_000) != ids(32_001));
        assert!(of(Prompts::Exact) != base && of(Prompts::Exact) != ids(32_000));
        let german = |cell: &mut Cell| cell.classes[0].content = Content::German;
        let mut other = Workload { prompts: Prompts::Exact, ..small() };
        german(&mut other.cells[0]);
        assert_ne!(build(&other).fingerprint, of(Prompts::Exact));
        let changes: [fn(&mut Cell); 7] = [
            |cell| cell.name = "d8".to_owned(),
            |cell| cell.load = Load::Closed { concurrency: 9 },
            |cell| cell.requests += 1,
            |cell| cell.warmup += 1,
            |cell| cell.classes[0].output_tokens = Lengths::Fixed(5),
            |cell| cell.timeout = Nanos::from_secs(61),
            |cell| cell.stall_timeout = Nanos::from_secs(11),
        ];
        for change in changes {
            let mut changed = small();
            change(&mut changed.cells[0]);
            assert_ne!(build(&changed).fingerprint, base);
        }
    }

    #[test]
    fn orders_are_seeded_and_follow_names() {
        let plan = build(&small());
        let mut reversed = plan.clone();
        reversed.cells.reverse();
        let names = |plan: &Plan, seed| order(plan, seed).into_iter().map(|i| plan.cells[i].name.clone()).collect();
        let orders: BTreeSet<Vec<String>> = (0..60).map(|seed| names(&plan, seed)).collect();
        assert_eq!(orders.len(), 6, "every order of three cells comes up");
        assert_eq!((0..60).map(|seed| names(&reversed, seed)).collect::<BTreeSet<_>>(), orders);
    }

    #[test]
    fn the_phases_of_a_cell_stay_together_in_order_and_a_cold_cell_comes_first() {
        let phase = |phase: Phase, name: &str| Cell {
            name: phase.of(name),
            phase,
            warmup: 0,
            ..cell(name, Load::Closed { concurrency: 2 })
        };
        let line = |name: &str, phases: &[Phase]| phases.iter().map(|it| phase(*it, name)).collect::<Vec<_>>();
        let mut workload = small();
        workload.cells.extend(line("a", &[Phase::Steady, Phase::Burst, Phase::Recovery]));
        workload.cells.extend(line("z", &[Phase::Cold, Phase::Steady]));
        let plan = build(&workload);
        let mut seconds = BTreeSet::new();
        for seed in 0..40 {
            let names: Vec<&str> = order(&plan, seed).into_iter().map(|at| plan.cells[at].name.as_str()).collect();
            assert_eq!((names.len(), &names[..2]), (8, &["z/cold", "z"][..]));
            let start = names.iter().position(|name| *name == "a").unwrap();
            assert_eq!(names[start..start + 3], ["a", "a/burst", "a/recovery"]);
            seconds.insert(names[2]);
        }
        assert_eq!(seconds.len(), 4, "the others come in every order");
        // Phases beside it leave a cell's own requests as they were.
        let alone = build(&Workload { cells: line("a", &[Phase::Steady]), ..small() });
        assert_eq!(plan.cells.iter().find(|cell| cell.name == "a"), alone.cells.first());
    }

    #[test]
    fn the_fingerprint_sees_every_number_of_a_load() {
        let secs = Nanos::from_secs;
        let bursts = |rate, every, burst| Load::Bursts { rate, every: secs(every), burst };
        let high = |rate, length| Burst::Rate { rate, length: secs(length) };
        let ramp = |from, to, over| Load::Ramp { from, to, over: secs(over) };
        let loads = [
            Load::Gamma { rate: 4.0, burstiness: 0.5 },
            Load::Gamma { rate: 4.0, burstiness: 2.0 },
            ramp(1.0, 2.0, 9_000),
            ramp(1.0, 3.0, 9_000),
            ramp(1.0, 2.0, 9_001),
            bursts(4.0, 9_000, Burst::Requests(3)),
            bursts(4.0, 9_000, Burst::Requests(4)),
            bursts(4.0, 9_001, Burst::Requests(3)),
            bursts(4.0, 9_000, high(9.0, 1)),
            bursts(4.0, 9_000, high(8.0, 1)),
            bursts(4.0, 9_000, high(9.0, 2)),
            Load::OnOff { rate: 4.0, on: secs(9_000), off: secs(1) },
            Load::OnOff { rate: 4.0, on: secs(9_000), off: secs(2) },
            Load::Poisson { rate: 4.0 },
            Load::Idle { pause: secs(1) },
            Load::Idle { pause: secs(2) },
        ];
        let of = |load, max_connections| {
            build(&workload(1, vec![Cell { max_connections, ..cell("c", load) }])).fingerprint.to_string()
        };
        let mut seen: BTreeSet<String> = loads.iter().map(|load| of(*load, None)).collect();
        seen.extend([of(loads[0], Some(8)), of(loads[0], Some(9))]);
        assert_eq!(seen.len(), loads.len() + 2);
    }

    proptest! {
        #[test]
        fn the_same_workload_gives_the_same_plan_and_another_seed_another(seed: u64, other: u64) {
            let with = |seed| build(&workload(seed, small().cells));
            prop_assert_eq!(with(seed), with(seed));
            prop_assert_eq!(with(seed).fingerprint == with(other).fingerprint, seed == other);
        }
    }
}
