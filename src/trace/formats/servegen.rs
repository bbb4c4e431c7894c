//! ServeGen's windows: no header; begin in s, rate per s, CV of the gaps, `Gamma` or `Weibull` or nothing, shape and scale in
//! s. One file is one client of a service.

use crate::base::units::Nanos;
use crate::trace::Input;
use crate::trace::collect::Collector;
use crate::trace::faults::Kind;
use crate::trace::formats::{Format, Marks};
use crate::trace::refused::Refused;
use crate::trace::request::{Gaps, Window};
use crate::trace::table::{Fields, Table, Wrong};

const COLUMNS: usize = 6;
/// The length of a window in the published files; only a file of one window needs it.
const LENGTH: Nanos = Nanos::from_secs(600);

pub(super) const MARKS: Marks = Marks::Headless(
    |names| {
        let number = |name: &String| name.parse::<f64>().is_ok();
        matches!(names, [at, rate, cv, gaps, shape, scale]
            if matches!(gaps.as_str(), "" | "gamma" | "weibull") && [at, rate, cv, shape, scale].into_iter().all(number))
    },
    "its first line has six fields: numbers, the fourth empty, Gamma or Weibull",
);

pub(super) fn read(input: Input<'_>, collector: &mut Collector<'_>) -> Result<(), Refused> {
    let mut windows: Vec<Window> = Vec::new();
    Table::headless(input, Format::Servegen, COLUMNS).each(collector, |collector, line, fields| {
        let window = window(fields)?;
        if windows.last().is_some_and(|last| window.at < last.at) {
            collector.faults.add(Kind::OutOfOrder, line, "");
        }
        windows.push(window);
        Ok(())
    })?;
    windows.sort_by_key(|window| window.at);
    let begins: Vec<Nanos> = windows.iter().map(|window| window.at).collect();
    let origin = begins.first().copied().unwrap_or_default();
    let mut length = LENGTH;
    for (window, next) in windows.iter_mut().zip(begins.iter().skip(1).map(Some).chain([None])) {
        length = next.map_or(length, |next| next.since(window.at));
        window.length = length;
        window.at = window.at.since(origin);
    }
    collector.windows = windows;
    Ok(())
}

fn window(fields: &Fields) -> Result<Window, Wrong> {
    let at = fields.seconds(Table::at(0, "time"))?;
    let positive = |index, name| {
        fields
            .number(Table::at(index, name))
            .and_then(|number| if number < 0.0 { Err((Kind::BadField, name)) } else { Ok(number) })
    };
    let (rate_per_s, cv) = (positive(1, "rate")?, positive(2, "cv")?);
    let (shape, scale) = (positive(4, "shape")?, positive(5, "scale")?);
    let gaps = match fields.text(Table::at(3, "distribution")) {
        "Gamma" => Some(Gaps::Gamma { shape, scale }),
        "Weibull" => Some(Gaps::Weibull { shape, scale }),
        "" if rate_per_s <= 0.0 => None,
        _ => return Err((Kind::BadField, "distribution")),
    };
    if gaps.is_some() && (shape <= 0.0 || scale <= 0.0) {
        return Err((Kind::BadField, "shape, scale"));
    }
    Ok(Window { at, length: Nanos::ZERO, rate_per_s, cv, gaps })
}
