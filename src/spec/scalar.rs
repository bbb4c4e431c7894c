//! The small texts that carry a unit: durations, percentages, rates, objectives. Each is written one way,
//! a number and its unit, and a text without a unit is never guessed.

use crate::base::units::Nanos;
use crate::spec::findings::Fault;
use crate::spec::text::quote;

/// A margin as written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Amount {
    /// `5%` is 0.05.
    Share(f64),
    /// `1pp` is 0.01.
    Points(f64),
}

impl Amount {
    pub(super) const fn value(self) -> f64 {
        match self {
            Self::Share(value) | Self::Points(value) => value,
        }
    }
}

/// An objective: a number and the unit in the words of [`crate::base::names::Metric::unit`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Objective {
    pub(super) value: f64,
    pub(super) unit: &'static str,
}

/// The grammar of each kind, as regular expressions for the JSON Schema.
pub(super) mod pattern {
    pub(crate) const DURATION: &str = "^[0-9]+(\\.[0-9]+)? ?(us|ms|s|m|h|d)$";
    pub(crate) const DAYS: &str = "^[0-9]+ ?d$";
    pub(crate) const PERCENT: &str = "^[0-9]+(\\.[0-9]+)? ?%$";
    pub(crate) const AMOUNT: &str = "^[0-9]+(\\.[0-9]+)? ?(%|pp)$";
    pub(crate) const RATE: &str = "^[0-9]+(\\.[0-9]+)? ?/s$";
    pub(crate) const CELL_RATE: &str = "^[0-9]+(\\.[0-9]+)? ?(/s|% of capacity)$";
    pub(crate) const OBJECTIVE: &str = "^[0-9]+(\\.[0-9]+)? ?(us|ms|s|m|h|d|%|tokens/s|requests/s|tokens)$";
    pub(crate) const CONTEXT: &str = "^([1-9][0-9]{0,6}k?-([1-9][0-9]{0,6}k?)?|-[1-9][0-9]{0,6}k?)$";
    pub(crate) const TURNS: &str = "^[1-9][0-9]{0,3}(-([1-9][0-9]{0,3})?)?$";
    pub(crate) const NAME: &str = "^[a-z0-9][a-z0-9_-]{0,63}$";
    pub(crate) const ENV_NAME: &str = "^[A-Za-z_][A-Za-z0-9_]{0,127}$";
    pub(crate) const COUNT: &str = "^[0-9]+$";
}

/// Splits a text into its number (as written) and its unit; none without a number in front.
fn quantity(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    decimal(number)?;
    Some((number, unit.strip_prefix(' ').unwrap_or(unit)))
}

/// A decimal number: digits, at most one point between digits, at most 15 characters (exact in a double).
fn decimal(text: &str) -> Option<f64> {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    (text.len() <= 15 && digits(whole) && digits(fraction)).then(|| text.parse().ok()).flatten()
}

/// Why a text is not a number with one of these units; `examples` are two right ones.
fn wrong(text: &str, what: &str, units: &str, suggestion: &str) -> Fault {
    let shown = quote(text);
    match quantity(text) {
        Some((_, "")) => Fault::new("missing-unit", format!("{shown} has no unit; {what} needs one"), suggestion),
        Some((_, unit)) => {
            let message = format!("{} is not a unit of {what}", quote(unit));
            Fault::new("wrong-unit", message, format!("use {units}; for example {suggestion}"))
        }
        None if text.starts_with('-') => {
            Fault::new("out-of-range", format!("{shown} is negative"), "write a number above zero")
        }
        None => Fault::new("wrong-type", format!("{shown} is not {what}"), suggestion),
    }
}

/// `300ms`, `1.5s`, `90d`, to the nearest nanosecond.
pub(super) fn duration(text: &str) -> Result<Nanos, Fault> {
    let in_ms = |unit: &str| {
        Some(match unit {
            "us" => 1e-3,
            "ms" => 1.0,
            "s" => 1e3,
            "m" => 6e4,
            "h" => 3.6e6,
            "d" => 8.64e7,
            _ => return None,
        })
    };
    quantity(text).and_then(|(number, unit)| Some(Nanos::from_ms(decimal(number)? * in_ms(unit)?))).ok_or_else(|| {
        let suggestion = match quantity(text) {
            Some((number, "")) => format!("write `{number}ms` or `{number}s`"),
            _ => "write `300ms`, `2s` or `5m`".to_owned(),
        };
        wrong(text, "a duration", "us, ms, s, m, h or d", &suggestion)
    })
}

/// The same number in ms, for a duration in seconds or minutes: `0.5m` becomes `0.5ms`.
pub(super) fn in_ms(text: &str) -> Option<String> {
    let (number, unit) = quantity(text)?;
    matches!(unit, "s" | "m").then(|| format!("{number}ms"))
}

/// `90d`: whole days.
pub(super) fn days(text: &str) -> Result<u32, Fault> {
    match quantity(text) {
        Some((number, "d")) if number.parse::<u32>().is_ok() => number.parse().map_err(|_source| not_days(text)),
        _ => Err(not_days(text)),
    }
}

fn not_days(text: &str) -> Fault {
    match quantity(text) {
        Some((number, "d")) => {
            Fault::new("wrong-type", format!("{} is not whole days", quote(&format!("{number}d"))), "write `90d`")
        }
        Some((number, "")) => wrong(text, "a number of days", "d", &format!("write `{number}d`")),
        _ => wrong(text, "a number of days", "d", "write `90d`"),
    }
}

/// Hundredths, rounded once: `0.3` becomes the double nearest to 0.003.
fn hundredths(number: &str) -> Option<f64> {
    decimal(number)?;
    format!("{number}e-2").parse().ok()
}

/// `5%` as 0.05.
pub(super) fn percent(text: &str) -> Result<f64, Fault> {
    match parse_amount(text) {
        Some(Amount::Share(share)) => Ok(share),
        Some(Amount::Points(_)) | None => {
            let suggestion = format!("write `{}`", suggested_percentage(text));
            Err(wrong(text, "a percentage", "%", &suggestion))
        }
    }
}

/// `5%` or `1pp`.
pub(super) fn amount(text: &str) -> Result<Amount, Fault> {
    parse_amount(text).ok_or_else(|| {
        let suggestion = format!("write `{}`, or `1pp` for error_rate", suggested_percentage(text));
        wrong(text, "a margin", "% (of the baseline) or pp (percentage points)", &suggestion)
    })
}

fn parse_amount(text: &str) -> Option<Amount> {
    let (number, unit) = quantity(text)?;
    let value = hundredths(number)?;
    match unit {
        "%" => Some(Amount::Share(value)),
        "pp" => Some(Amount::Points(value)),
        _ => None,
    }
}

/// What was probably meant: `0.05` is a share, `5` a percentage that lost its sign.
fn suggested_percentage(text: &str) -> String {
    match quantity(text) {
        Some((number, "")) => match decimal(number) {
            Some(share) if share > 0.0 && share < 1.0 => format!("{}%", (share * 1e6).round() / 1e4),
            _ => format!("{number}%"),
        },
        _ => "5%".to_owned(),
    }
}

/// `9/s` as 9 per second.
pub(super) fn rate(text: &str) -> Result<f64, Fault> {
    quantity(text).and_then(|(number, unit)| if unit == "/s" { decimal(number) } else { None }).ok_or_else(|| {
        let suggestion = quantity(text).map_or("write `9/s`".to_owned(), |(number, _)| format!("write `{number}/s`"));
        wrong(text, "a rate", "/s", &suggestion)
    })
}

/// The arrival rate of a cell as written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum CellRate {
    /// `9/s`.
    PerSecond(f64),
    /// `70% of capacity` is 0.7.
    OfCapacity(f64),
}

impl CellRate {
    /// Requests per second, to the nearest decimal number that a person would write: `70%` of `12.4/s` is `8.68/s`. None
    /// for a share of a capacity that is not known.
    pub(super) fn per_second(self, capacity: Option<f64>) -> Option<f64> {
        match self {
            Self::PerSecond(rate) => Some(rate),
            Self::OfCapacity(share) => Some((share * capacity? * 1e6).round() / 1e6),
        }
    }
}

/// `9/s`, or `70% of capacity`.
pub(super) fn cell_rate(text: &str) -> Result<CellRate, Fault> {
    let share = text.strip_suffix("capacity").and_then(|rest| rest.trim_end().strip_suffix("of")).map(str::trim_end);
    match share {
        Some(share) => percent(share).map(CellRate::OfCapacity),
        None => rate(text).map(CellRate::PerSecond),
    }
}

/// `800ms`, `1%`, `2000 tokens/s`, `9 requests/s`, `200 tokens`.
pub(super) fn objective(text: &str) -> Result<Objective, Fault> {
    let (number, unit) = quantity(text).unwrap_or(("", ""));
    let plain = |unit| decimal(number).map(|value| Objective { value, unit });
    match unit {
        "tokens/s" => plain("tokens/s"),
        "requests/s" => plain("requests/s"),
        "tokens" => plain("tokens"),
        "%" => hundredths(number).map(|value| Objective { value, unit: "share" }),
        _ => duration(text).ok().map(|time| Objective { value: time.as_ms(), unit: "ms" }),
    }
    .ok_or_else(|| {
        let units = "ms or s for a time, tokens/s for throughput, requests/s for goodput, % for error_rate, tokens for output_tokens";
        wrong(text, "an objective", units, "write `800ms` or `2000 tokens/s`")
    })
}

/// Digits only: no sign, no separators, no exponent.
pub(super) fn count(text: &str) -> Result<u64, Fault> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    (digits.then(|| text.parse().ok()).flatten()).ok_or_else(|| {
        let message = format!("{} is not a whole number", quote(text));
        Fault::new("wrong-type", message, "write digits only, for example `100`")
    })
}

/// A decimal number without unit.
pub(super) fn number(text: &str) -> Result<f64, Fault> {
    decimal(text).ok_or_else(|| {
        Fault::new(
            "wrong-type",
            format!("{} is not a number", quote(text)),
            "write a decimal number, for example `0.5`",
        )
    })
}

/// A duration of the command line, written as in a file: `90s`, `10m`.
///
/// # Errors
/// What is wrong with it, and what to write.
pub fn read_duration(text: &str) -> Result<Nanos, String> {
    duration(text).map_err(|Fault { message, help, .. }| format!("{message}: {help}"))
}

/// A rate of the command line, written as in a file: `9/s`.
///
/// # Errors
/// What is wrong with it, and what to write.
pub fn read_rate(text: &str) -> Result<f64, String> {
    rate(text).map_err(|Fault { message, help, .. }| format!("{message}: {help}"))
}

/// Why a text from the command line is refused. Of a URL it shows no credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongOption {
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: String,
}

impl From<Fault> for WrongOption {
    fn from(Fault { message, help, .. }: Fault) -> Self {
        Self { message, help }
    }
}

/// The base URL of a target that stands in no file, by the rules of one that does.
///
/// # Errors
/// It is no URL, or holds what a base URL must not hold: credentials, a query, the path of the API.
pub fn check_url(text: &str) -> Result<String, WrongOption> {
    Ok(url(text)?)
}

/// A base URL: `http://` or `https://`, a host, perhaps a path; the trailing slash is dropped.
pub(super) fn url(text: &str) -> Result<String, Fault> {
    let example = "write the server's address, for example `http://127.0.0.1:8000`";
    // The text is not shown: it may hold a password.
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).unwrap_or_default();
    if rest.split(['/', '?', '#']).next().unwrap_or_default().contains('@') {
        let mut message = "the URL holds credentials; secrets do not belong in a file or on a command line".to_owned();
        let mut help =
            "take the user and password out of the URL and name the key's variable in `api_key_env`".to_owned();
        if let Some(Fault { message: also, help: too, .. }) = surplus(text) {
            message = format!("{message}; besides, {also}");
            help = format!("{help}; {too}");
        }
        return Err(Fault::new("secret-in-file", message, help));
    }
    if rest.is_empty() {
        return Err(Fault::new(
            "invalid-url",
            "the URL does not begin with `http://` or `https://` and a host",
            example,
        ));
    }
    if let Some(fault) = surplus(text).filter(|_| text.contains(['?', '#'])) {
        return Err(fault);
    }
    let trimmed = text.trim_end_matches('/');
    match trimmed.parse::<http::Uri>() {
        Ok(uri) if uri.host().is_some_and(|host| !host.is_empty()) => {}
        _ => return Err(Fault::new("invalid-url", format!("{} is not a URL", quote(text)), example)),
    }
    surplus(text).map_or_else(|| Ok(trimmed.to_owned()), Err)
}

/// What a base URL has behind its path that does not belong there. Nothing of the text is shown.
fn surplus(text: &str) -> Option<Fault> {
    if text.contains(['?', '#']) {
        let message = "a base URL has no query and no fragment";
        return Some(Fault::new("invalid-url", message, "remove everything from the `?` or `#` on"));
    }
    let trimmed = text.trim_end_matches('/');
    let end = ["/v1", "/completions"].into_iter().find(|end| trimmed.ends_with(end))?;
    let message = format!("the URL ends in `{end}`, and `api` adds the path itself");
    Some(Fault::new("invalid-url", message, "write the URL without the path of the API"))
}

/// The word for a target without a page of counters.
pub(super) const NO_PAGE: &str = "none";

/// A page of a target: a path beside its API, a whole URL, or `none`.
pub(super) fn page(text: &str) -> Result<(), Fault> {
    if text == NO_PAGE {
        return Ok(());
    }
    let help = "write a path such as `/metrics`, a URL such as `http://127.0.0.1:8002/metrics`, or `none`";
    let (base, path) = if text.starts_with('/') {
        ("http://host", text)
    } else {
        let host = text.find("://").map_or(0, |at| at + 3);
        let end = text.get(host..).and_then(|rest| rest.find('/')).map_or(text.len(), |at| host + at);
        text.split_at_checked(end).unwrap_or((text, ""))
    };
    url(base)
        .map_err(|fault| if fault.code == "invalid-url" { Fault { help: help.to_owned(), ..fault } } else { fault })?;
    match format!("{base}{path}").parse::<http::Uri>() {
        Ok(_) if !path.contains('#') => Ok(()),
        _ => Err(Fault::new("invalid-url", format!("{} is not the place of a page", quote(text)), help)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_unit_and_round_once() {
        assert_eq!(duration("0.3ms").unwrap(), Nanos(300_000));
        assert_eq!(duration("1.5 s").unwrap(), Nanos::from_millis(1_500));
        assert_eq!(duration("5m").unwrap(), Nanos::from_secs(300));
        assert_eq!(duration("250us").unwrap(), Nanos::from_micros(250));
        assert_eq!(days("90d").unwrap(), 90);
        assert_eq!(amount("5%").unwrap(), Amount::Share(0.05));
        assert_eq!(amount("0.3 %").unwrap(), Amount::Share(0.003));
        assert_eq!(amount("1pp").unwrap(), Amount::Points(0.01));
        assert_eq!(rate("9/s").unwrap().to_bits(), 9.0_f64.to_bits());
        assert_eq!(cell_rate("9/s").unwrap(), CellRate::PerSecond(9.0));
        let share = cell_rate("70% of capacity").unwrap();
        assert_eq!(share, CellRate::OfCapacity(0.7));
        // The very double of the absolute rate, so that the plan is the same.
        assert_eq!(share.per_second(Some(12.4)).unwrap().to_bits(), rate("8.68/s").unwrap().to_bits());
        assert_eq!(share.per_second(None), None);
        assert_eq!(objective("2s").unwrap(), Objective { value: 2_000.0, unit: "ms" });
        assert_eq!(objective("0.1%").unwrap(), Objective { value: 0.001, unit: "share" });
        assert_eq!(objective("2000 tokens/s").unwrap(), Objective { value: 2_000.0, unit: "tokens/s" });
    }

    #[test]
    fn a_missing_unit_is_never_guessed_and_the_fix_is_spelled_out() {
        let help = |fault: Fault| (fault.code, fault.help);
        assert_eq!(help(duration("10").unwrap_err()), ("missing-unit", "write `10ms` or `10s`".to_owned()));
        assert_eq!(help(percent("5").unwrap_err()), ("missing-unit", "write `5%`".to_owned()));
        let either = "write `5%`, or `1pp` for error_rate".to_owned();
        assert_eq!(help(amount("0.05").unwrap_err()), ("missing-unit", either));
        assert_eq!(help(rate("9").unwrap_err()), ("missing-unit", "write `9/s`".to_owned()));
        assert_eq!(help(cell_rate("70 of capacity").unwrap_err()), ("missing-unit", "write `70%`".to_owned()));
        assert_eq!(help(cell_rate("70%").unwrap_err()).0, "wrong-unit");
        assert_eq!(help(days("90").unwrap_err()), ("missing-unit", "write `90d`".to_owned()));
    }

    #[test]
    fn what_is_not_a_quantity_is_refused() {
        for text in ["", "ms", ".5ms", "5.ms", "1e3ms", "1_000ms", "+1ms", "-1ms", "1  ms", "1.2.3s", "١ms", "NaNms"] {
            assert!(duration(text).is_err(), "{text}");
        }
        for text in ["", "-1", "1.0", "1_000", "0x10", "1e3", "99999999999999999999"] {
            assert!(count(text).is_err(), "{text}");
        }
        assert_eq!(duration("-1ms").unwrap_err().code, "out-of-range");
        assert_eq!(duration("10 sec").unwrap_err().code, "wrong-unit");
        assert_eq!(percent("1pp").unwrap_err().code, "wrong-unit");
    }

    #[test]
    fn a_url_is_a_base_without_credentials() {
        assert_eq!(url("https://llm.internal/serve/").unwrap(), "https://llm.internal/serve");
        assert_eq!(url("http://[::1]:8000").unwrap(), "http://[::1]:8000");
        for (text, code) in [
            ("ftp://host", "invalid-url"),
            ("localhost:8000", "invalid-url"),
            ("http://", "invalid-url"),
            ("http:///path", "invalid-url"),
            ("http://host/v1", "invalid-url"),
            ("http://host?key=1", "invalid-url"),
            ("http://host/#x", "invalid-url"),
            ("http://ho st", "invalid-url"),
            ("https://user:secret@host", "secret-in-file"),
        ] {
            let fault = url(text).unwrap_err();
            assert_eq!(fault.code, code, "{text}");
            assert!(!fault.message.contains("secret@"), "{}", fault.message);
        }
    }

    #[test]
    fn a_page_is_a_path_a_url_or_none() {
        for text in ["/metrics", "/metrics?name=a", "none", "http://h:8002/metrics", "https://h", "http://[::1]:9/v1"] {
            page(text).unwrap();
        }
        for (text, code) in [
            ("metrics", "invalid-url"),
            ("off", "invalid-url"),
            ("/me trics", "invalid-url"),
            ("/metrics#x", "invalid-url"),
            ("ftp://h/metrics", "invalid-url"),
            ("http:///metrics", "invalid-url"),
            ("http://user:secret@h/metrics", "secret-in-file"),
        ] {
            let fault = page(text).unwrap_err();
            assert_eq!(fault.code, code, "{text}");
            assert!(!fault.message.contains("secret@"), "{}", fault.message);
        }
    }
}
