//! One value against its kind: the right grammar, the right range, no secret.

use crate::spec::findings::{Fault, Findings, child, item};
use crate::spec::scalar::{self, CellRate};
use crate::spec::shape::{Field, Kind, Need, Object};
use crate::spec::slice;
use crate::spec::text::{is_printable, list, nearest, quote};
use crate::spec::yaml::{Entry, Node, Value};

/// Longest text in characters.
pub(super) const MAX_TEXT: usize = 1_000;
/// Longest list or mapping with free keys.
pub(super) const MAX_ITEMS: usize = 1_000;
/// The format that this version reads and writes.
pub(super) const FORMAT: u64 = 1;

/// How YAML writes nothing.
pub(super) fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// A scalar against its kind.
pub(super) fn check_scalar(kind: &Kind, text: &str, plain: bool) -> Result<(), Fault> {
    if plain && is_null(text) {
        return Err(Fault::new("empty-value", "the key has no value", format!("write {}", example(kind))));
    }
    if !plain && matches!(kind, Kind::Count { .. } | Kind::Number { .. } | Kind::Version) {
        let help = "remove the quotes";
        return Err(Fault::new("wrong-type", format!("{} in quotes is a text, not a number", quote(text)), help));
    }
    match kind {
        Kind::Word(word) => choose(text, &[word]),
        Kind::Choice(names) => choose(text, &names()),
        Kind::Text | Kind::Fact | Kind::RelativePath | Kind::UrlPath => check_text(kind, text),
        Kind::Name => check_name(text),
        Kind::EnvName => check_env_name(text),
        Kind::Url => scalar::url(text).map(drop),
        Kind::Page => scalar::page(text),
        Kind::Count { min, max } => {
            between(&scalar::count(text)?, min, max, text, [&min.to_string(), &max.to_string()])
        }
        Kind::Number { min, max } => {
            between(&scalar::number(text)?, min, max, text, [&min.to_string(), &max.to_string()])
        }
        Kind::Duration { min, max } => bounded(text, [min, max], scalar::duration).map_err(|fault| {
            // `0.5m` is half a minute, and looks like half a millisecond.
            let meant = scalar::in_ms(text).filter(|meant| bounded(meant, [min, max], scalar::duration).is_ok());
            let meant = meant.filter(|_| fault.code == "out-of-range");
            meant.map_or(fault.clone(), |meant| Fault {
                help: format!("{}; did you mean `{meant}`?", fault.help),
                ..fault
            })
        }),
        Kind::Percent { min, max } => bounded(text, [min, max], scalar::percent),
        Kind::Rate { min, max } => bounded(text, [min, max], scalar::rate),
        Kind::CellRate { min, max } => match scalar::cell_rate(text)? {
            CellRate::OfCapacity(share) => between(&share, &0.01, &10.0, text, ["1% of capacity", "1000% of capacity"]),
            CellRate::PerSecond(_) => bounded(text, [min, max], scalar::rate),
        },
        Kind::Days => bounded(text, ["1d", "3650d"], scalar::days),
        Kind::Amount => match scalar::amount(text)? {
            amount if amount.value() > 0.0 => Ok(()),
            _ => Err(Fault::new(
                "out-of-range",
                "a margin of zero can never be shown",
                "write how much worse still is harmless",
            )),
        },
        Kind::Objective => match scalar::objective(text)? {
            objective if objective.value > 0.0 => Ok(()),
            _ => Err(Fault::new("out-of-range", "an objective of zero is always missed", "write a number above zero")),
        },
        Kind::Context => slice::context(text).map(drop),
        Kind::Turns => slice::turns(text).map(drop),
        Kind::Either(scalar, _) => check_scalar(scalar, text, plain),
        // The header judges the version before everything else; the others are not scalars.
        Kind::Version | Kind::Set(_) | Kind::List(_) | Kind::Map(..) | Kind::Object(_) | Kind::Json => Ok(()),
    }
}

fn bounded<T: PartialOrd>(
    text: &str,
    bounds: [&str; 2],
    parse: impl Fn(&str) -> Result<T, Fault>,
) -> Result<(), Fault> {
    let [min, max] = bounds;
    between(&parse(text)?, &parse(min)?, &parse(max)?, text, bounds)
}

fn between<T: PartialOrd>(value: &T, min: &T, max: &T, text: &str, bounds: [&str; 2]) -> Result<(), Fault> {
    if value >= min && value <= max {
        return Ok(());
    }
    let [least, most] = bounds;
    let message = format!("{} is out of range", quote(text));
    Err(Fault::new("out-of-range", message, format!("write a value from `{least}` to `{most}`")))
}

fn choose(text: &str, words: &[&str]) -> Result<(), Fault> {
    if words.contains(&text) {
        return Ok(());
    }
    let help = match nearest(text, words.iter().copied()) {
        Some(word) => format!("did you mean `{word}`?"),
        None => format!("write one of {}", list(words.iter().copied())),
    };
    Err(Fault::new("unknown-value", format!("{} is not known here", quote(text)), help))
}

fn check_text(kind: &Kind, text: &str) -> Result<(), Fault> {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Err(Fault::new("empty-value", "the text is empty", "write something"));
    }
    if trimmed.chars().count() > MAX_TEXT {
        return Err(Fault::new("out-of-range", format!("the text has more than {MAX_TEXT} characters"), "shorten it"));
    }
    if !trimmed.chars().all(is_printable) {
        let message = "the text holds a line break or an invisible character";
        return Err(Fault::new("wrong-type", message, "write one line of visible characters"));
    }
    let not_relative = text.starts_with(['/', '~']) || text.contains(['\\', ':']);
    if matches!(kind, Kind::RelativePath) && not_relative {
        let message = format!("{} is not a relative path with `/`", quote(text));
        let help = "write the path from this file's folder, for example `workloads/chat.yaml`";
        return Err(Fault::new("wrong-type", message, help));
    }
    if matches!(kind, Kind::UrlPath) && (!text.starts_with('/') || text.contains([' ', '#'])) {
        let message = format!("{} is not the path of a request", quote(text));
        return Err(Fault::new("wrong-type", message, "begin it with `/`, for example `/health`"));
    }
    Ok(())
}

fn check_name(text: &str) -> Result<(), Fault> {
    let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let rest = |b: u8| letter(b) || b == b'-' || b == b'_';
    if (1..=64).contains(&text.len()) && text.bytes().next().is_some_and(letter) && text.bytes().all(rest) {
        return Ok(());
    }
    let help = "use lower-case letters, digits, `-` and `_`, at most 64, beginning with a letter or digit";
    Err(Fault::new("invalid-name", format!("{} is not a name", quote(text)), help))
}

/// The text is not shown in the message: people put the secret itself here.
fn check_env_name(text: &str) -> Result<(), Fault> {
    let rest = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if (1..=128).contains(&text.len()) && text.bytes().all(rest) && !text.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(());
    }
    let message = "this is not the name of an environment variable, and secrets do not belong in a file";
    Err(Fault::new("secret-in-file", message, "write the variable's name, for example `STAGING_API_KEY`"))
}

/// A right value, for the fix of a missing one.
pub(super) fn example(kind: &Kind) -> String {
    match kind {
        Kind::Version => FORMAT.to_string(),
        Kind::Word(word) => (*word).to_owned(),
        Kind::Text | Kind::Fact => "...".to_owned(),
        Kind::Name => "chat".to_owned(),
        Kind::RelativePath => "workloads/chat.yaml".to_owned(),
        Kind::UrlPath => "/health".to_owned(),
        Kind::Page => "/metrics".to_owned(),
        Kind::Url => "http://127.0.0.1:8000".to_owned(),
        Kind::EnvName => "STAGING_API_KEY".to_owned(),
        Kind::Choice(names) => names().first().copied().unwrap_or_default().to_owned(),
        Kind::Count { .. } => "100".to_owned(),
        Kind::Number { .. } => "0.5".to_owned(),
        Kind::Duration { .. } => "300ms".to_owned(),
        Kind::Days => "90d".to_owned(),
        Kind::Percent { .. } | Kind::Amount => "5%".to_owned(),
        Kind::Rate { .. } | Kind::CellRate { .. } => "9/s".to_owned(),
        Kind::Objective => "800ms".to_owned(),
        Kind::Context => "8k-32k".to_owned(),
        Kind::Turns => "2-4".to_owned(),
        Kind::Set(item) | Kind::List(item) => format!("[{}]", example(item)),
        Kind::Map(key, value) => format!("{{{}: {}}}", example(key), example(value)),
        Kind::Object(_) | Kind::Json => "{...}".to_owned(),
        Kind::Either(scalar, _) => example(scalar),
    }
}

/// What a value of this kind looks like.
pub(super) fn expected(kind: &Kind) -> String {
    let example = example(kind);
    if let Kind::Object(object) = kind {
        format!("a {}: a mapping such as `{}`", object.name, mapping(object))
    } else if matches!(kind, Kind::Map(..) | Kind::Json) {
        format!("a mapping such as `{example}`")
    } else if matches!(kind, Kind::Set(_) | Kind::List(_)) {
        format!("a list such as `{example}`")
    } else {
        format!("one value such as `{example}`")
    }
}

/// A right value of a key, for the fix of a missing one. The ends of a range must not make an empty one.
pub(super) fn example_of(field: &Field) -> String {
    match (field.name, &field.kind) {
        ("min", Kind::Count { .. }) => "1".to_owned(),
        ("max", Kind::Count { .. }) => "4096".to_owned(),
        _ => example(&field.kind),
    }
}

/// A mapping with the keys that it needs: those that are required, or the first.
fn mapping(object: &Object) -> String {
    let required: Vec<&Field> = object.fields.iter().filter(|field| field.need == Need::Required).collect();
    let shown = if required.is_empty() { object.fields.iter().take(1).collect() } else { required };
    let keys: Vec<String> = shown.iter().map(|field| format!("{}: {}", field.name, example_of(field))).collect();
    format!("{{{}}}", keys.join(", "))
}

/// What was probably meant by one value in place of a mapping: the value of the only key that it needs.
pub(super) fn wrapped(object: &Object, text: &str) -> Option<String> {
    let mut required = object.fields.iter().filter(|field| field.need == Need::Required);
    let (only, None) = (required.next()?, required.next()) else { return None };
    let plain = !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '/' | '_' | '-'));
    let list = matches!(only.kind, Kind::List(Kind::Fact));
    (plain && list).then(|| format!("{{{}: [{text}]}}", only.name))
}

/// The finding for a secret under a key of its own; the value is never shown.
pub(super) fn secret() -> Fault {
    let message = "secrets do not belong in a file";
    Fault::new("secret-in-file", message, "put it into an environment variable and name that in `api_key_env`")
}

/// Whether a key with this name holds a secret: `api_key`, `hf_token`, `Authorization`; not `max_tokens` or `eos_token`.
pub(super) fn is_secret_key(key: &str) -> bool {
    const ENDS: [&str; 8] =
        ["api_key", "apikey", "password", "passwd", "secret", "authorization", "bearer", "credentials"];
    const TOKENS: [&str; 7] =
        ["token", "api_token", "auth_token", "access_token", "bearer_token", "hf_token", "secret_token"];
    let key = key.trim().to_ascii_lowercase().replace('-', "_");
    let ends = |tail: &str| key.strip_suffix(tail).is_some_and(|head| head.is_empty() || head.ends_with('_'));
    ENDS.into_iter().any(ends) || TOKENS.contains(&key.as_str())
}

/// The node as JSON, by YAML's core rules for plain scalars. What YAML versions read differently is a finding.
pub(super) fn json(node: &Node, path: &str, findings: &mut Findings) -> serde_json::Value {
    match &node.value {
        Value::Scalar { text, plain: false } => text.clone().into(),
        Value::Scalar { text, plain: true } => plain_json(text).unwrap_or_else(|fault| {
            findings.error(&node.at, path, fault);
            serde_json::Value::Null
        }),
        Value::List(items) => {
            items.iter().enumerate().map(|(index, value)| json(value, &item(path, index), findings)).collect()
        }
        Value::Map(entries) => {
            let mut object = serde_json::Map::new();
            for Entry { key, value, .. } in entries {
                let path = child(path, key);
                if is_secret_key(key) {
                    findings.error(&value.at, &path, secret());
                }
                object.insert(key.clone(), json(value, &path, findings));
            }
            object.into()
        }
    }
}

fn plain_json(text: &str) -> Result<serde_json::Value, Fault> {
    match text {
        "true" => return Ok(true.into()),
        "false" => return Ok(false.into()),
        _ if is_null(text) => return Ok(serde_json::Value::Null),
        _ => {}
    }
    if let Ok(number @ serde_json::Value::Number(_)) = serde_json::from_str(text) {
        return Ok(number);
    }
    let lower = text.to_ascii_lowercase();
    if matches!(lower.as_str(), "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n") {
        let message = format!("{} is a truth value to some YAML readers and a text to others", quote(text));
        return Err(Fault::new("ambiguous-value", message, "write `true` or `false`, or put the text in quotes"));
    }
    let digits = lower.trim_start_matches(['+', '-']);
    let number =
        digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') && digits.replace('_', "").parse::<f64>().is_ok();
    if number || digits.starts_with("0x") || digits.starts_with("0o") || matches!(digits, ".inf" | ".nan") {
        let message = format!("{} is a number to some YAML readers and not in JSON", quote(text));
        return Err(Fault::new("ambiguous-value", message, "write a plain decimal number, or put the text in quotes"));
    }
    Ok(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_their_key_and_generation_options_are_not_secrets() {
        for key in ["api_key", "API-KEY", "openai_api_key", "token", "HF-Token", "Authorization", "db_password"] {
            assert!(is_secret_key(key), "{key}");
        }
        for key in ["max_tokens", "eos_token", "stop_token_ids", "api_key_env", "model", "secretary"] {
            assert!(!is_secret_key(key), "{key}");
        }
    }

    #[test]
    fn plain_scalars_become_json_only_where_all_readers_agree() {
        let read = |text: &str| plain_json(text).ok();
        assert_eq!(read("true"), Some(true.into()));
        assert_eq!(read("-1.5e3"), Some((-1_500.0).into()));
        assert_eq!(read("~"), Some(serde_json::Value::Null));
        for text in ["no", "On", "True", "0x10", "0o7", "1_000", "+1", ".5", "5.", "007", ".inf", "-.NaN"] {
            assert_eq!(read(text), None, "{text}");
        }
        for text in ["90d", "5%", "2024-01-01", "1.2.3", "nano", "infinite", "a"] {
            assert_eq!(read(text), Some(text.into()), "{text}");
        }
    }
}
