//! Lines of a program: indentation, names, calls, comments, as they are frequent in Python.

use crate::base::rng::Stream;
use crate::plan::content::Source;

/// Parts of names.
const NAMES: [&str; 127] = [
    "value", "key", "item", "index", "name", "data", "result", "count", "size", "node", "path", "file", "line", "text",
    "list", "map", "user", "order", "total", "start", "end", "left", "right", "first", "last", "next", "prev",
    "parent", "child", "root", "leaf", "row", "column", "table", "query", "field", "type", "kind", "state", "status",
    "error", "message", "event", "queue", "task", "job", "worker", "thread", "lock", "timer", "clock", "time", "date",
    "day", "hour", "rate", "limit", "offset", "page", "token", "word", "char", "byte", "block", "chunk", "buffer",
    "cache", "store", "entry", "record", "batch", "group", "filter", "sort", "match", "rule", "check", "test", "case",
    "input", "output", "source", "target", "client", "server", "host", "port", "request", "response", "header", "body",
    "url", "link", "image", "color", "width", "height", "depth", "level", "score", "weight", "sum", "mean", "max",
    "min", "config", "option", "flag", "mode", "model", "layer", "graph", "edge", "point", "shape", "scale", "step",
    "seed", "sample", "label", "price", "amount", "account", "address", "city", "country", "version",
];

/// Lines, most of them with more than one form: `@` is a name, `%` a number, `$` some words.
const LINES: [&str; 24] = [
    "def @_@(@, @):",
    "    @ = @.@(@)",
    "    @_@ = []",
    "    for @ in @_@:",
    "        if @ is None or @ > %:",
    "            continue",
    "        @[@] = @.get(\"@\", %)",
    "        @_@.append(@)",
    "    return @",
    "    # $",
    "    if not @:",
    "        raise ValueError(f\"@ {@} has no @\")",
    "    @, @ = @.@(\"@\")",
    "    while @ < len(@):",
    "        @ += %",
    "    try:",
    "        @ = @_@(@, @=%)",
    "    except KeyError:",
    "        return {\"@\": @, \"@\": %}",
    "class @:",
    "    def __init__(self, @):",
    "        self.@ = @",
    "    \"\"\"$\"\"\"",
    "    assert @(@) == %, @",
];

/// Words of a comment, from and to.
const COMMENT: [u64; 2] = [3, 9];

/// Endless lines.
pub(super) struct Code;

fn name(stream: &mut Stream) -> &'static str {
    stream.choose(&NAMES).copied().unwrap_or_default()
}

impl Source for Code {
    fn next(&mut self, stream: &mut Stream, first: bool) -> String {
        let line = stream.choose(&LINES).copied().unwrap_or_default();
        let mut piece = String::with_capacity(line.len() * 3);
        if first {
            piece.push_str("import ");
            piece.push_str(name(stream));
        }
        piece.push('\n');
        for letter in line.chars() {
            match letter {
                '@' => piece.push_str(name(stream)),
                '%' => piece.push_str(&stream.below(1_000).to_string()),
                '$' => {
                    let [least, most] = COMMENT;
                    let words: Vec<&str> = (0..stream.between(least, most)).map(|_| name(stream)).collect();
                    piece.push_str(&words.join(" "));
                }
                other => piece.push(other),
            }
        }
        piece
    }

    fn fillers(&self) -> Vec<String> {
        NAMES.iter().map(|name| format!(" {name}")).collect()
    }

    fn alphabet(&self) -> &'static [&'static str] {
        &NAMES
    }
}
