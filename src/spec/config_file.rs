//! `servegate.yaml`: its keys, and the text to a [`Config`].

use crate::base::diagnostic::Diagnostic;
use crate::base::names::{Api, Condition, HttpVersion};
use crate::spec::document::{FileKind, Reading, VERSION, open};
use crate::spec::findings::{Fault, Findings, child};
use crate::spec::scalar;
use crate::spec::shape::{Field, Kind, Need, Object};
use crate::spec::target::{Config, MetricsPage, NamedFile, Ready, Restart, Target};
use crate::spec::text::quote;
use crate::spec::value::json;
use crate::spec::view::View;

/// What servegate writes into every request body itself, from the target and the plan.
const OWN_FIELDS: [&str; 12] = [
    "model",
    "messages",
    "prompt",
    "input",
    "inputs",
    "text_input",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "n_predict",
];

pub(super) static CONFIG: Object = Object {
    name: "config",
    doc: "The deployments that may be measured, and where results go. Flags win over this file.",
    one_of: &[],
    fields: &[
        VERSION,
        Field { name: "kind", kind: Kind::Word("config"), need: Need::Required, doc: "what this file is" },
        Field {
            name: "targets",
            kind: Kind::Map(&Kind::Name, &Kind::Object(&TARGET)),
            need: Need::Optional,
            doc: "the deployments by name",
        },
        Field {
            name: "baselines",
            kind: Kind::Text,
            need: Need::Optional,
            doc: "the folder of the baselines; `baselines` by default",
        },
        Field {
            name: "out",
            kind: Kind::Text,
            need: Need::Optional,
            doc: "the folder of the reports; `servegate-out` by default",
        },
    ],
};

static TARGET: Object = Object {
    name: "target",
    doc: "One deployment to measure.",
    one_of: &[],
    fields: &[
        Field {
            name: "url",
            kind: Kind::Url,
            need: Need::Required,
            doc: "the base URL, without the path of the API and without credentials",
        },
        Field {
            name: "api",
            kind: Kind::Choice(apis),
            need: Need::Default("chat"),
            doc: "the HTTP interface; see \"Interfaces\" in docs/targets.md",
        },
        Field { name: "model", kind: Kind::Text, need: Need::Required, doc: "the model name to ask for" },
        Field {
            name: "api_key_env",
            kind: Kind::EnvName,
            need: Need::Optional,
            doc: "the environment variable that holds the API key",
        },
        Field {
            name: "ca_file",
            kind: Kind::Text,
            need: Need::Optional,
            doc: "a file with a CA certificate (PEM) to trust beside the system's",
        },
        Field {
            name: "tokenizer",
            kind: Kind::Text,
            need: Need::Optional,
            doc: "the model's `tokenizer.json` (Hugging Face), which counts answers that come without usage",
        },
        Field {
            name: "protocol",
            kind: Kind::Choice(http_versions),
            need: Need::Default("http1"),
            doc: "the version of HTTP: `http1`, or `http2` with one request at a time on a connection",
        },
        Field {
            name: "proxy",
            kind: Kind::Url,
            need: Need::Optional,
            doc: "an HTTP proxy that every connection is tunnelled through (`CONNECT`); the environment's is not used",
        },
        Field {
            name: "session_header",
            kind: Kind::Name,
            need: Need::Optional,
            doc: "the header by which a router keeps the requests of a session on one server, for example `x-session-id`; by default none is sent",
        },
        Field {
            name: "restart",
            kind: Kind::Object(&RESTART),
            need: Need::Optional,
            doc: "how to restart the deployment before each run",
        },
        Field { name: "ready", kind: Kind::Object(&READY), need: Need::Optional, doc: "how to see that it is ready" },
        Field {
            name: "metrics",
            kind: Kind::Page,
            need: Need::Optional,
            doc: "the page with the server's counters; `/metrics` where there is one, `none` not to ask",
        },
        Field {
            name: "extra_body",
            kind: Kind::Json,
            need: Need::Optional,
            doc: "more fields of every request body, for example `ignore_eos: true`",
        },
        Field {
            name: "conditions",
            kind: Kind::Map(&Kind::Choice(conditions), &Kind::Fact),
            need: Need::Optional,
            doc: "facts that the numbers depend on and that nobody can probe",
        },
    ],
};

static RESTART: Object = Object {
    name: "restart",
    doc: "A command that restarts the deployment; it sees SERVEGATE_SIDE and SERVEGATE_RELEASE.",
    one_of: &[],
    fields: &[
        Field {
            name: "command",
            kind: Kind::List(&Kind::Fact),
            need: Need::Required,
            doc: "the program and its arguments; no shell reads them",
        },
        Field {
            name: "timeout",
            kind: Kind::Duration { min: "1s", max: "1d" },
            need: Need::Default("10m"),
            doc: "the longest time it may take",
        },
    ],
};

static READY: Object = Object {
    name: "ready",
    doc: "A readiness check: a GET of the path answers 200.",
    one_of: &[],
    fields: &[
        Field { name: "path", kind: Kind::UrlPath, need: Need::Default("/health"), doc: "the path to ask for" },
        Field {
            name: "timeout",
            kind: Kind::Duration { min: "1s", max: "1d" },
            need: Need::Default("10m"),
            doc: "the longest time from the restart's end",
        },
    ],
};

fn http_versions() -> Vec<&'static str> {
    HttpVersion::ALL.iter().map(|version| version.id()).collect()
}

fn apis() -> Vec<&'static str> {
    Api::ALL.iter().map(|api| api.id()).collect()
}

/// The names of all conditions, for this description and the policy's.
pub(super) fn conditions() -> Vec<&'static str> {
    Condition::ALL.iter().map(|condition| condition.id()).collect()
}

/// Reads a `servegate.yaml`; `file` is its name in the findings.
///
/// # Errors
/// Every problem of the file.
pub fn read_config(file: &str, text: &str) -> Result<Reading<Config>, Vec<Diagnostic>> {
    let mut findings = Findings::new(file);
    let config = open(text, FileKind::Config, &CONFIG, &mut findings)
        .and_then(|root| config(&View::new(&CONFIG, &root, String::new()), &mut findings));
    Reading::end(config, findings)
}

fn config(view: &View<'_>, findings: &mut Findings) -> Option<Config> {
    let targets: Vec<_> = view
        .entries("targets")
        .iter()
        .map(|entry| {
            let path = child(&view.key("targets"), &entry.key);
            target(&View::new(&TARGET, &entry.value, path), findings).map(|target| (entry.key.clone(), target))
        })
        .collect();
    Some(Config {
        targets: targets.into_iter().collect::<Option<_>>()?,
        baselines: view.text("baselines"),
        out: view.text("out"),
    })
}

/// Headers that say something else, or that servegate sets itself.
const OWN_HEADERS: [&str; 12] = [
    "accept",
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "te",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "x-request-id",
];

fn session_header(view: &View<'_>, findings: &mut Findings) -> Option<String> {
    let name = view.text("session_header")?;
    if OWN_HEADERS.contains(&name.as_str()) {
        let message = format!("the header {} means something else", quote(&name));
        let help = "write the header that the router keeps sessions by";
        findings.error(
            &view.at("session_header"),
            &view.key("session_header"),
            Fault::new("reserved-key", message, help),
        );
    }
    Some(name)
}

fn target(view: &View<'_>, findings: &mut Findings) -> Option<Target> {
    let api = view.name("api", Api::from_id);
    let mut extra_body = serde_json::Map::new();
    for entry in view.entries("extra_body") {
        let path = child(&view.key("extra_body"), &entry.key);
        // Its faults are in the findings already.
        let value = json(&entry.value, &path, &mut Findings::new(""));
        // A server that does not know the usage of streams may be asked without it.
        let without = entry.key == "stream_options" && value.is_null();
        let own = OWN_FIELDS.contains(&entry.key.as_str())
            || (matches!(entry.key.as_str(), "text" | "input_ids") && api == Some(Api::Sglang));
        if own && !without {
            let message = format!("{} is set by servegate itself, from the target and the workload", quote(&entry.key));
            findings.error(&entry.key_at, &path, Fault::new("reserved-key", message, "remove it"));
        }
        if let Some(api) = api.filter(|api| entry.key == "ignore_eos" && !api.forces_length()) {
            let message = format!("servers of the `{api}` interface cannot force the length of an answer");
            let help = "remove it; answers may then end before the planned length";
            findings.error(&entry.key_at, &path, Fault::new("unsupported-key", message, help));
        }
        extra_body.insert(entry.key.clone(), value);
    }
    let conditions = view
        .entries("conditions")
        .iter()
        .map(|entry| Some((Condition::from_id(&entry.key)?, entry.value.text()?.trim().to_owned())));
    let restart = match view.view("restart") {
        Some(restart) => Some(Restart {
            command: restart
                .items("command")
                .iter()
                .map(|(_, node)| node.text().map(str::to_owned))
                .collect::<Option<_>>()?,
            timeout: restart.read("timeout", scalar::duration)?,
        }),
        None => None,
    };
    let ready = match view.view("ready") {
        Some(ready) => Ready { path: ready.text("path")?, timeout: ready.read("timeout", scalar::duration)? },
        None => Ready::default(),
    };
    Some(Target {
        url: view.read("url", scalar::url)?,
        api: api?,
        model: view.text("model")?,
        api_key_env: view.text("api_key_env"),
        ca_file: view.text("ca_file"),
        tokenizer: view.text("tokenizer").map(|path| NamedFile {
            path,
            key: view.key("tokenizer"),
            place: Some(findings.place(&view.at("tokenizer"))),
        }),
        protocol: view.name("protocol", HttpVersion::from_id)?,
        proxy: view.read("proxy", scalar::url),
        session_header: session_header(view, findings),
        restart,
        ready,
        metrics: match view.text("metrics") {
            None => MetricsPage::Usual,
            Some(word) if word == scalar::NO_PAGE => MetricsPage::Off,
            Some(place) => MetricsPage::At(place),
        },
        extra_body,
        conditions: conditions.collect::<Option<_>>()?,
    })
}
