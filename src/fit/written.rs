//! The text of a fitted workload. It says where its numbers come from and names neither file, text nor row of the trace.

use std::fmt::Write as _;

use crate::base::words::count;
use crate::fit::{Arrivals, Kind, Options, UNKNOWN_OUTPUT, Window};
use crate::spec::workload::{LengthRow, Range};
use crate::trace::request::Requests;

/// A cell before it is written.
pub(super) struct Draft {
    pub(super) window: Window,
    pub(super) arrivals: Option<Arrivals>,
    pub(super) kinds: Vec<Kind>,
    pub(super) planned: (u32, u32),
    pub(super) untold: usize,
}

/// The whole file.
pub(super) fn workload(trace: &Requests, options: &Options, drafts: &[Draft]) -> String {
    let requests = count(trace.rows.len(), "request");
    let mut text = format!(
        "# Fitted by `servegate workload fit` to a trace of the format {}: {requests}. It holds distributions, and no request\n\
         # of the trace.\n\
         servegate: 1\nkind: workload\nname: {}\nseed: {}\ncells:\n",
        trace.source, options.name, options.seed
    );
    for draft in drafts {
        cell(&mut text, draft);
    }
    text
}

/// Writing to a String cannot fail.
macro_rules! line {
    ($text:expr, $($words:tt)*) => {
        let _infallible = writeln!($text, $($words)*);
    };
}

fn cell(text: &mut String, draft: &Draft) {
    let Draft { window, arrivals, kinds, planned: (warmup, requests), untold } = draft;
    let all = count(window.rows.len(), "request");
    if arrivals.is_none() {
        line!(text, "  # {all}. The trace does not say when they arrived, so that the load is not its own:");
        line!(text, "  # one request at a time. Choose a `rate` or another `concurrency`.");
    } else {
        let among = window.among;
        let which = if among > 1 { format!(", the {} of {among} windows", window.name) } else { String::new() };
        line!(text, "  # {}{which}: {all}.", window.when());
    }
    if *untold > 0 {
        line!(text, "  # The trace does not tell the length of the answer of {}.", count(*untold, "request"));
    }
    line!(text, "  - name: {}", window.name);
    match arrivals {
        Some(Arrivals { rate, burstiness }) => {
            line!(text, "    rate: {}/s", plain(*rate, 5));
            if let Some(burstiness) = burstiness {
                line!(text, "    arrivals: {{gamma: {{burstiness: {}}}}}", plain(*burstiness, 3));
            }
        }
        None => {
            line!(text, "    concurrency: 1");
        }
    }
    line!(text, "    warmup: {warmup}");
    line!(text, "    requests: {requests}");
    if let [only @ Kind { name: None, .. }] = kinds.as_slice() {
        kind(text, only, "    ");
        return;
    }
    line!(text, "    classes:");
    for of_class in kinds {
        line!(text, "      - name: {}", of_class.name.as_deref().unwrap_or_default());
        line!(text, "        weight: {}", of_class.requests);
        kind(text, of_class, "        ");
    }
}

fn kind(text: &mut String, Kind { rows, prefix, is_told, .. }: &Kind, indent: &str) {
    if let Some(prefix) = prefix {
        line!(text, "{indent}shared_prefix: {{groups: {}, tokens: {}}}", prefix.groups, prefix.tokens);
    }
    if !is_told {
        line!(text, "{indent}# No answer has a known length: {UNKNOWN_OUTPUT} is a guess. Write how long yours are.");
    }
    line!(text, "{indent}lengths:");
    for LengthRow { prompt, output, weight } in rows {
        line!(text, "{indent}  - {{prompt: {}, output: {}, weight: {weight}}}", range(*prompt), range(*output));
    }
}

/// A number without zeros at its end.
fn plain(number: f64, decimals: usize) -> String {
    let text = format!("{number:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn range(Range { min, max }: Range) -> String {
    if min == max { min.to_string() } else { format!("[{min}, {max}]") }
}
