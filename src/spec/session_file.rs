//! The sessions of a cell in a workload file.

use crate::base::units::Nanos;
use crate::spec::findings::{Fault, Findings};
use crate::spec::lengths_file::{LENGTH, TOKENS, lengths};
use crate::spec::scalar;
use crate::spec::session::{Answers, Branches, MOST_TURNS, Pause, Session, Tools};
use crate::spec::shape::{Field, Kind, Need, Object};
use crate::spec::view::View;
use crate::spec::workload::{Class, Lengths, Load};

/// Messages that the prompts of one cell hold: 64 MB of plan.
const MOST_MESSAGES: u64 = 4_000_000;

const TIME: Kind = Kind::Duration { min: "1ms", max: "1h" };
/// A pause, or a distribution of pauses.
const PAUSE: Kind = Kind::Either(&TIME, &Kind::Object(&PAUSES));

fn answers() -> Vec<&'static str> {
    Answers::ALL.iter().map(|answers| answers.id()).collect()
}

/// The key of a cell.
pub(super) const SESSION: Field = Field {
    name: "session",
    kind: Kind::Object(&OBJECT),
    need: Need::Optional,
    doc: "requests come in conversations of several turns; `concurrency` and `rate` then count sessions; see \"Sessions\"",
};

static OBJECT: Object = Object {
    name: "session",
    doc: "A conversation: each turn's prompt is all that was said before, and something new.",
    one_of: &[],
    fields: &[
        Field { name: "turns", kind: LENGTH, need: Need::Required, doc: "requests of a session, at most 1000" },
        Field {
            name: "turn_tokens",
            kind: LENGTH,
            need: Need::Required,
            doc: "new tokens of each turn of the user after the first, whose prompt has `prompt_tokens`",
        },
        Field {
            name: "think",
            kind: PAUSE,
            need: Need::Optional,
            doc: "the time from the end of an answer to the next turn of the user; by default none",
        },
        Field {
            name: "answers",
            kind: Kind::Choice(answers),
            need: Need::Default("fixed"),
            doc: "what stands in the context for earlier answers: words of the plan (`fixed`), or what the model said (`model`)",
        },
        Field {
            name: "tools",
            kind: Kind::Object(&TOOLS),
            need: Need::Optional,
            doc: "turns that bring the result of a tool; by default every turn is the user's",
        },
        Field {
            name: "branches",
            kind: Kind::Object(&BRANCHES),
            need: Need::Optional,
            doc: "a session goes on in several ways at once; by default it does not",
        },
        Field {
            name: "max_context",
            kind: TOKENS,
            need: Need::Default("1000000"),
            doc: "a session ends before a turn whose prompt and answer together would have more tokens",
        },
    ],
};

static TOOLS: Object = Object {
    name: "tools of a session",
    doc: "Turns that bring the result of a tool that the model called.",
    one_of: &[],
    fields: &[
        Field {
            name: "calls",
            kind: Kind::Count { min: 1, max: MOST_TURNS as u64 },
            need: Need::Required,
            doc: "so many turns after each turn of the user bring a result",
        },
        Field { name: "tokens", kind: LENGTH, need: Need::Required, doc: "tokens of a result" },
        Field {
            name: "time",
            kind: PAUSE,
            need: Need::Optional,
            doc: "how long a tool takes, from the end of the answer to the request with the result; by default no time",
        },
    ],
};

static BRANCHES: Object = Object {
    name: "branches of a session",
    doc: "Several continuations of one conversation, at once.",
    one_of: &[],
    fields: &[
        Field {
            name: "after",
            kind: Kind::Count { min: 1, max: MOST_TURNS as u64 - 1 },
            need: Need::Required,
            doc: "the last turn that they have in common",
        },
        Field {
            name: "count",
            kind: Kind::Count { min: 2, max: 64 },
            need: Need::Required,
            doc: "the number of continuations",
        },
    ],
};

static PAUSES: Object = Object {
    name: "pause distribution",
    doc: "Times that differ.",
    one_of: &["uniform", "log_normal"],
    fields: &[
        Field {
            name: "uniform",
            kind: Kind::Object(&UNIFORM),
            need: Need::Optional,
            doc: "every time from `min` to `max` equally often",
        },
        Field {
            name: "log_normal",
            kind: Kind::Object(&LOG_NORMAL),
            need: Need::Optional,
            doc: "many short and few long ones, truncated to `min` to `max`",
        },
    ],
};

static UNIFORM: Object = Object {
    name: "uniform pauses",
    doc: "Every time equally often.",
    one_of: &[],
    fields: &[
        Field { name: "min", kind: TIME, need: Need::Required, doc: "the shortest time" },
        Field { name: "max", kind: TIME, need: Need::Required, doc: "the longest time" },
    ],
};

static LOG_NORMAL: Object = Object {
    name: "log-normal pauses",
    doc: "Times whose logarithm is normal.",
    one_of: &[],
    fields: &[
        Field {
            name: "median",
            kind: TIME,
            need: Need::Required,
            doc: "the median before the distribution is truncated",
        },
        Field {
            name: "sigma",
            kind: Kind::Number { min: 0.01, max: 3.0 },
            need: Need::Required,
            doc: "the standard deviation of the natural logarithm",
        },
        Field { name: "min", kind: TIME, need: Need::Required, doc: "the shortest time" },
        Field { name: "max", kind: TIME, need: Need::Required, doc: "the longest time" },
    ],
};

/// Keys that say something else about the same requests.
const EXCLUDED: [(&str, &str); 3] = [
    ("classes", "the requests of sessions are of one kind"),
    ("phases", "sessions are one time line of their own, without phases"),
    ("trace", "a trace has sessions of its own"),
];

/// The sessions of a cell whose first requests are those of `class`; none inside where it has none, none outside where
/// something is wrong.
#[expect(clippy::option_option, reason = "no session and a wrong session are two things")]
pub(super) fn session(view: &View<'_>, class: Option<&Class>, findings: &mut Findings) -> Option<Option<Session>> {
    let Some(session) = view.view(SESSION.name) else {
        return (!view.has(SESSION.name)).then_some(None);
    };
    let mut right = true;
    for (other, message) in EXCLUDED.into_iter().filter(|(other, _)| view.has(other)) {
        let fault = Fault::new("conflicting-keys", message, format!("remove `{other}`, or `session`"));
        findings.error(&view.at(other), &view.key(other), fault);
        right = false;
    }
    let turns = lengths("turns", &session, findings);
    let turn_tokens = lengths("turn_tokens", &session, findings);
    let think = pause("think", &session, findings);
    let tools = tools(&session, findings);
    let branches = session.view("branches");
    let (turns, max_context) = (turns?, session.count("max_context")?);
    let mut error = |key: &str, code, message: String, help: &str| {
        findings.error(&session.at(key), &session.key(key), Fault::new(code, message, help));
        right = false;
    };
    if turns.most() > MOST_TURNS {
        let message = format!("{} turns are more than the {MOST_TURNS} allowed", turns.most());
        error("turns", "out-of-range", message, "make sessions shorter");
    }
    let branches = branches
        .and_then(|branches| Some(Branches { after: branches.count("after")?, count: branches.count("count")? }));
    if let Some(Branches { after, .. }) = branches
        && after >= turns.most()
    {
        let message = format!("a session has at most {} turns, so that none goes on after turn {after}", turns.most());
        error("branches", "impossible-range", message, "branch earlier, or let sessions have more `turns`");
    }
    let first = class.map_or(0, |class| class.prompt_tokens.most().saturating_add(class.output_tokens.most()));
    if first > max_context {
        let message = format!("a first turn may have {first} tokens, its answer included");
        error(
            "max_context",
            "impossible-range",
            message,
            "raise it, or make `prompt_tokens` and `output_tokens` shorter",
        );
    }
    let answers = session.text("answers").as_deref().and_then(Answers::from_id)?;
    right.then_some(Some(Session {
        turns,
        turn_tokens: turn_tokens?,
        think: think?,
        answers,
        tools: tools?,
        branches,
        max_context,
    }))
}

/// Whether the requests of a cell are enough for its sessions, and not too many to be planned.
pub(super) fn fit(
    session: &Session,
    load: Load,
    [warmup, requests]: [u32; 2],
    view: &View<'_>,
    findings: &mut Findings,
) {
    let mut error = |key: &str, code, message: String, help: &str| {
        findings.error(&view.at(key), &view.key(key), Fault::new(code, message, help));
    };
    if let Load::Closed { concurrency } = load
        && f64::from(requests) < f64::from(concurrency) * session.mean_requests()
    {
        let message = format!(
            "{requests} requests in sessions of {:.0} never fill {concurrency} sessions at once",
            session.mean_requests()
        );
        error("requests", "impossible-range", message, "plan a session or more for each slot");
    }
    // Of a session's requests the average one holds as many messages as the session has turns.
    let all = u64::from(warmup).saturating_add(requests.into());
    if all.saturating_mul(session.turns.most().into()) > MOST_MESSAGES {
        let message = format!(
            "{all} requests, those of the warm-up among them, in sessions of up to {} turns hold more than {MOST_MESSAGES} messages",
            session.turns.most()
        );
        error("session", "too-large", message, "plan fewer `requests`, lower the load, or make sessions shorter");
    }
}

#[expect(clippy::option_option, reason = "no tools and wrong tools are two things")]
fn tools(session: &View<'_>, findings: &mut Findings) -> Option<Option<Tools>> {
    let Some(tools) = session.view("tools") else {
        return (!session.has("tools")).then_some(None);
    };
    let (tokens, time) = (lengths("tokens", &tools, findings), pause("time", &tools, findings));
    Some(Some(Tools { calls: tools.count("calls")?, tokens: tokens?, time: time? }))
}

/// The pauses under a key, in whole milliseconds; without the key there are none.
fn pause(key: &str, view: &View<'_>, findings: &mut Findings) -> Option<Pause> {
    let in_ms = |view: &View<'_>, key: &str| {
        let time: Nanos = view.read(key, scalar::duration)?;
        u32::try_from(time.0.div_ceil(1_000_000)).ok()
    };
    if !view.has(key) {
        return Some(Pause(Lengths::Fixed(0)));
    }
    let Some(pauses) = view.view(key) else {
        return in_ms(view, key).map(|ms| Pause(Lengths::Fixed(ms)));
    };
    let mut ordered = |right: bool, message: &str, view: &View<'_>| {
        if !right {
            let help = "write a range, or one time for a fixed pause";
            findings.error(&view.place(), &view.path, Fault::new("impossible-range", message, help));
        }
    };
    if let Some(uniform) = pauses.view("uniform") {
        let (min, max) = (in_ms(&uniform, "min")?, in_ms(&uniform, "max")?);
        ordered(min < max, "`min` is not below `max`", &uniform);
        return Some(Pause(Lengths::Uniform { min, max }));
    }
    let log_normal = pauses.view("log_normal")?;
    let (min, max) = (in_ms(&log_normal, "min")?, in_ms(&log_normal, "max")?);
    let (median, sigma) = (in_ms(&log_normal, "median")?, log_normal.read("sigma", scalar::number)?);
    ordered(min < max, "`min` is not below `max`", &log_normal);
    ordered(min >= max || (min..=max).contains(&median), "`median` is not between `min` and `max`", &log_normal);
    Some(Pause(Lengths::LogNormal { median: f64::from(median), sigma, min, max }))
}
