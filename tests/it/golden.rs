//! The same workload, seed and version give the same plan on every machine.

use std::collections::BTreeSet;

use servegate::spec::workload::{Burst, Lengths, Load};

use crate::stored::planned;
use crate::support::Scene;

/// Kinds of loads, told apart as the plan tells them apart.
const fn kind(load: Load) -> usize {
    match load {
        Load::Closed { .. } => 0,
        Load::Poisson { .. } => 1,
        Load::Constant { .. } => 2,
        Load::Gamma { .. } => 3,
        Load::Ramp { .. } => 4,
        Load::Bursts { burst: Burst::Requests(_), .. } => 5,
        Load::Bursts { burst: Burst::Rate { .. }, .. } => 6,
        Load::OnOff { .. } => 7,
        Load::Idle { .. } => 8,
        Load::Trace => 9,
    }
}

const fn kind_of(lengths: &Lengths) -> usize {
    match lengths {
        Lengths::Fixed(_) => 0,
        Lengths::Uniform { .. } => 1,
        Lengths::LogNormal { .. } => 2,
        Lengths::Table(_) => 3,
        Lengths::Traced => 4,
        // Those of a table of both, which is pinned by itself.
        Lengths::Ranges(_) => 5,
    }
}

#[test]
fn the_fingerprint_of_a_table_of_lengths_is_the_same_everywhere() {
    let scene = Scene::new();
    let cell =
        "servegate: 1\nkind: workload\nname: joint\ncells:\n  - {name: c, rate: 2/s, requests: 100, lengths: [ROWS]}\n";
    let mut rows = ["{prompt: [10, 500], output: [5, 60], weight: 3}", "{prompt: 64, output: [1, 9], weight: 0.5}"];
    for _ in 0..2 {
        // In whatever order they stand.
        rows.reverse();
        scene.write("w.yaml", &cell.replace("ROWS", &rows.join(", ")));
        let fingerprint = planned(&scene).fingerprint.to_string();
        assert_eq!(fingerprint, "sha256:b933f9e8355b9c1f9f92a769df0181767085b6947b0939acfbafe4456bd721bf");
    }
}

#[test]
fn the_fingerprint_of_every_kind_of_load_and_lengths_is_the_same_everywhere() {
    let scene = Scene::new();
    scene.write("w.yaml", include_str!("../data/every-load.yaml"));
    scene.write("every-load.jsonl", include_str!("../data/every-load.jsonl"));
    let workload = servegate::spec::read_workload("w.yaml", &scene.read("w.yaml")).unwrap().value;
    let loads: BTreeSet<usize> = workload.cells.iter().map(|cell| kind(cell.load)).collect();
    let lengths = workload
        .cells
        .iter()
        .flat_map(|cell| &cell.classes)
        .flat_map(|class| [kind_of(&class.prompt_tokens), kind_of(&class.output_tokens)]);
    assert_eq!((loads.len(), lengths.collect::<BTreeSet<_>>().len()), (10, 5), "a kind is not in the file");
    // Where this differs, stored baselines are not comparable: a function of the system gave other bits, or a change of
    // the generator was not meant to be one.
    let fingerprint = planned(&scene).fingerprint.to_string();
    assert_eq!(fingerprint, "sha256:4b5d21a3add42bf2dd03761eb83c5dbf9deda7e0ceee47b96dca7feb2f4af65b");
    scene.line("check w.yaml").exits(0);
}
