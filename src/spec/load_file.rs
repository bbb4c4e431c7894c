//! The part of a workload file that says when requests come: loads, and the phases of a cell.

use crate::base::units::Nanos;
use crate::spec::findings::{Fault, Findings};
use crate::spec::load::{Burst, Load, Phase};
use crate::spec::scalar;
use crate::spec::shape::{Field, Kind, Need, Object};
use crate::spec::view::View;

const COUNT: Kind = Kind::Count { min: 1, max: 1_000_000 };
const LEAST: &str = "0.001/s";
const MOST: &str = "10000/s";
const PER_SECOND: Kind = Kind::Rate { min: LEAST, max: MOST };
const PERIOD: Kind = Kind::Duration { min: "10ms", max: "1h" };

pub(super) const CONCURRENCY: Field = Field {
    name: "concurrency",
    kind: Kind::Count { min: 1, max: 4_096 },
    need: Need::Optional,
    doc: "closed loop: this many requests in flight, the next one due the instant a slot is free",
};

pub(super) const RATE: Field = Field {
    name: "rate",
    kind: Kind::CellRate { min: LEAST, max: MOST },
    need: Need::Optional,
    doc: "open loop: requests arrive at this mean rate, whatever the server does; or a share of the workload's `capacity`, such as `70% of capacity`",
};

pub(super) const CAPACITY: Field = Field {
    name: "capacity",
    kind: PER_SECOND,
    need: Need::Optional,
    doc: "what `rate: 70% of capacity` is a share of: the rate that `servegate capacity` found",
};

pub(super) const TRACE: Field = Field {
    name: "trace",
    kind: Kind::RelativePath,
    need: Need::Optional,
    doc: "open loop: requests arrive when those of this recorded trace did, with its lengths; see \"Traces\"",
};

pub(super) const ARRIVALS: Field = Field {
    name: "arrivals",
    kind: Kind::Either(&Kind::Choice(arrivals), &Kind::Object(&ARRIVAL_PROCESS)),
    need: Need::Default("poisson"),
    doc: "with `rate`: `poisson` (random), `constant` (evenly spaced), or another process",
};

static ARRIVAL_PROCESS: Object = Object {
    name: "arrival process",
    doc: "How requests of an open loop arrive.",
    one_of: &["gamma", "ramp", "bursts", "on_off"],
    fields: &[
        Field {
            name: "gamma",
            kind: Kind::Object(&GAMMA),
            need: Need::Optional,
            doc: "more or less clustered than `poisson`, at the mean rate `rate`",
        },
        Field {
            name: "ramp",
            kind: Kind::Object(&RAMP),
            need: Need::Optional,
            doc: "random, at a rate that starts at `rate` and rises or falls in a straight line",
        },
        Field {
            name: "bursts",
            kind: Kind::Object(&BURSTS),
            need: Need::Optional,
            doc: "random at `rate`, with a burst at the end of every period",
        },
        Field {
            name: "on_off",
            kind: Kind::Object(&ON_OFF),
            need: Need::Optional,
            doc: "random at `rate` for a time, then silence for a time, and again",
        },
    ],
};

static GAMMA: Object = Object {
    name: "gamma arrivals",
    doc: "Independent gamma gaps.",
    one_of: &[],
    fields: &[Field {
        name: "burstiness",
        kind: Kind::Number { min: 0.05, max: 100.0 },
        need: Need::Required,
        doc: "the shape of the gaps: 1 is `poisson`, less comes in clusters, more is more even",
    }],
};

static RAMP: Object = Object {
    name: "ramp",
    doc: "A rate that changes in a straight line and then stays.",
    one_of: &[],
    fields: &[
        Field { name: "to", kind: PER_SECOND, need: Need::Required, doc: "the rate at its end" },
        Field {
            name: "over",
            kind: Kind::Duration { min: "1s", max: "24h" },
            need: Need::Required,
            doc: "the time it takes",
        },
    ],
};

static BURSTS: Object = Object {
    name: "bursts",
    doc: "A burst at the end of every period.",
    one_of: &["requests", "rate"],
    fields: &[
        Field { name: "every", kind: PERIOD, need: Need::Required, doc: "the length of a period" },
        Field {
            name: "requests",
            kind: Kind::Count { min: 1, max: 10_000 },
            need: Need::Optional,
            doc: "so many requests at the same instant, beside the others",
        },
        Field {
            name: "rate",
            kind: PER_SECOND,
            need: Need::Optional,
            doc: "this rate in place of the usual one, for the time `for`",
        },
        Field {
            name: "for",
            kind: PERIOD,
            need: Need::Optional,
            doc: "with `rate`: how long a burst lasts, less than `every`",
        },
    ],
};

static ON_OFF: Object = Object {
    name: "on and off",
    doc: "Arrivals for a time, silence for a time.",
    one_of: &[],
    fields: &[
        Field {
            name: "on",
            kind: PERIOD,
            need: Need::Required,
            doc: "the time with arrivals; the cell begins with it",
        },
        Field { name: "off", kind: PERIOD, need: Need::Required, doc: "the time without" },
    ],
};

pub(super) static PHASES: Object = Object {
    name: "phases",
    doc: "What else stands on a cell's time line, in this order: cold, warm-up, steady, idle, burst, recovery, soak.",
    one_of: &[],
    fields: &[
        Field {
            name: "cold",
            kind: Kind::Object(&COLD),
            need: Need::Optional,
            doc: "the cell's first requests, before its warm-up, under its load; cells that have it are visited first, in the order of the file",
        },
        Field {
            name: "idle",
            kind: Kind::Object(&IDLE),
            need: Need::Optional,
            doc: "single requests, each after silence: what the first request after a pause costs",
        },
        Field { name: "burst", kind: Kind::Object(&BURST), need: Need::Optional, doc: "another load" },
        Field {
            name: "recovery",
            kind: Kind::Object(&RECOVERY),
            need: Need::Optional,
            doc: "the cell's load again, from the instant in which the burst is over, with whatever it left behind",
        },
        Field {
            name: "soak",
            kind: Kind::Object(&SOAK),
            need: Need::Optional,
            doc: "the cell's load at the end, for long: what a deployment that has aged costs",
        },
    ],
};

static COLD: Object =
    Object { name: "cold phase", doc: "Requests before any warm-up.", one_of: &[], fields: &[REQUESTS] };

static IDLE: Object = Object {
    name: "idle phase",
    doc: "Single requests after silence.",
    one_of: &[],
    fields: &[
        Field {
            name: "pause",
            kind: Kind::Duration { min: "100ms", max: "1h" },
            need: Need::Required,
            doc: "the silence before each request, from the end of the one before",
        },
        REQUESTS,
    ],
};

static BURST: Object = Object {
    name: "burst phase",
    doc: "A load of its own.",
    one_of: &["concurrency", "rate"],
    fields: &[CONCURRENCY, RATE, ARRIVALS, REQUESTS],
};

static RECOVERY: Object =
    Object { name: "recovery phase", doc: "The cell's load after a burst.", one_of: &[], fields: &[REQUESTS] };

static SOAK: Object = Object { name: "soak phase", doc: "The cell's load for long.", one_of: &[], fields: &[REQUESTS] };

const REQUESTS: Field =
    Field { name: "requests", kind: COUNT, need: Need::Required, doc: "measured requests of the phase per run" };

fn arrivals() -> Vec<&'static str> {
    vec!["poisson", "constant"]
}

/// One written phase.
pub(super) struct Part {
    pub(super) phase: Phase,
    /// None for the cell's.
    pub(super) load: Option<Load>,
    pub(super) requests: u32,
}

/// The phases beside the steady one; none when one of them is wrong.
pub(super) fn phases(view: &View<'_>, capacity: Option<f64>, findings: &mut Findings) -> Option<Vec<Part>> {
    if view.has("recovery") && !view.has("burst") {
        let message = "there is no burst to recover from";
        let fault = Fault::new("missing-key", message, "add a `burst`, or remove `recovery`");
        findings.error(&view.at("recovery"), &view.key("recovery"), fault);
    }
    let written = Phase::ALL.into_iter().filter_map(|phase| Some((phase, view.view(phase.id())?)));
    written
        .map(|(phase, view)| {
            let requests = view.count("requests");
            let load = match phase {
                Phase::Idle => Some(Some(Load::Idle { pause: view.read("pause", scalar::duration)? })),
                Phase::Burst => {
                    let load = load(&view, capacity, findings);
                    fills(load, requests, &view, findings);
                    load.map(Some)
                }
                Phase::Cold | Phase::Steady | Phase::Recovery | Phase::Soak => Some(None),
            };
            Some(Part { phase, load: load?, requests: requests? })
        })
        .collect::<Vec<Option<Part>>>()
        .into_iter()
        .collect()
}

/// A closed loop needs enough requests to fill its slots.
pub(super) fn fills(load: Option<Load>, requests: Option<u32>, view: &View<'_>, findings: &mut Findings) {
    if let (Some(Load::Closed { concurrency }), Some(requests)) = (load, requests)
        && requests < concurrency
    {
        let message = format!("{requests} requests never fill a concurrency of {concurrency}");
        let fault = Fault::new("impossible-range", message, "plan several requests for each slot");
        findings.error(&view.at("requests"), &view.key("requests"), fault);
    }
}

/// `docs/statistics.md` section 2: twice the concurrency, at least 20.
pub(super) const fn default_warmup(load: Load) -> u32 {
    if let Load::Closed { concurrency } = load
        && concurrency > 10
    {
        return concurrency.saturating_mul(2);
    }
    20
}

/// The load of a mapping with `concurrency`, or `rate` and `arrivals`. `capacity` is the workload's, in requests per second.
pub(super) fn load(view: &View<'_>, capacity: Option<f64>, findings: &mut Findings) -> Option<Load> {
    if view.has("arrivals") && !view.has("rate") {
        let message = "`arrivals` says how requests arrive at a `rate`, and there is none";
        let fault = Fault::new("conflicting-keys", message, "remove `arrivals`, or use `rate`");
        findings.error(&view.at("arrivals"), &view.key("arrivals"), fault);
    }
    if view.has(TRACE.name) {
        return Some(Load::Trace);
    }
    if view.has("concurrency") {
        return view.count("concurrency").map(|concurrency| Load::Closed { concurrency });
    }
    let rate = rate(view, capacity, findings);
    if let Some(process) = view.view("arrivals") {
        return process_of(&process, rate, findings);
    }
    match view.text("arrivals")?.as_str() {
        "constant" => Some(Load::Constant { rate: rate? }),
        _ => Some(Load::Poisson { rate: rate? }),
    }
}

/// The rate of a cell or burst; what is a share of the capacity becomes absolute here, so that all who follow the plan send
/// the same.
fn rate(view: &View<'_>, capacity: Option<f64>, findings: &mut Findings) -> Option<f64> {
    let written = view.read("rate", scalar::cell_rate)?;
    let fault = match written.per_second(capacity) {
        Some(rate) if (scalar::rate(LEAST).ok()?..=scalar::rate(MOST).ok()?).contains(&rate) => return Some(rate),
        Some(rate) => {
            let message = format!("this share of the capacity is {rate}/s");
            Fault::new("out-of-range", message, format!("write a share that is from `{LEAST}` to `{MOST}`"))
        }
        None => Fault::new(
            "missing-key",
            "the rate is a share of the capacity, and the workload states none",
            "add `capacity: 9/s` to the workload, with the rate that `servegate capacity` finds",
        ),
    };
    findings.error(&view.at("rate"), &view.key("rate"), fault);
    None
}

fn process_of(view: &View<'_>, rate: Option<f64>, findings: &mut Findings) -> Option<Load> {
    if let Some(gamma) = view.view("gamma") {
        let burstiness = gamma.read("burstiness", scalar::number)?;
        return Some(Load::Gamma { rate: rate?, burstiness });
    }
    if let Some(ramp) = view.view("ramp") {
        let (to, over) = (ramp.read("to", scalar::rate)?, ramp.read("over", scalar::duration)?);
        return Some(Load::Ramp { from: rate?, to, over });
    }
    if let Some(bursts) = view.view("bursts") {
        return burst(&bursts, findings).and_then(|(every, burst)| Some(Load::Bursts { rate: rate?, every, burst }));
    }
    let on_off = view.view("on_off")?;
    let (on, off) = (on_off.read("on", scalar::duration)?, on_off.read("off", scalar::duration)?);
    Some(Load::OnOff { rate: rate?, on, off })
}

fn burst(view: &View<'_>, findings: &mut Findings) -> Option<(Nanos, Burst)> {
    let every = view.read("every", scalar::duration);
    let length = view.read("for", scalar::duration);
    let fault = match (view.has("rate"), view.has("for")) {
        (true, false) => Some(Fault::new("missing-key", "`for` is missing: how long a burst lasts", "add `for: 2s`")),
        (false, true) => Some(Fault::new(
            "conflicting-keys",
            "`for` says how long a burst with a `rate` lasts; its `requests` come at one instant",
            "remove `for`, or use `rate` in place of `requests`",
        )),
        _ if length.zip(every).is_some_and(|(length, every)| length >= every) => Some(Fault::new(
            "impossible-range",
            "a burst is not shorter than its period",
            "make `for` less than `every`",
        )),
        _ => None,
    };
    if let Some(fault) = fault {
        findings.error(&view.at("for"), &view.key("for"), fault);
        return None;
    }
    let burst = if view.has("rate") {
        Burst::Rate { rate: view.read("rate", scalar::rate)?, length: length? }
    } else {
        Burst::Requests(view.count("requests")?)
    };
    Some((every?, burst))
}
