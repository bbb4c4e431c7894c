//! The tokenizer file of a target: from a Hugging Face `tokenizer.json` to something that counts. The only place that names
//! the tokenizer crate (docs/decisions/0010-tokenizer.md).

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::path::Path;
use std::sync::Once;

use kitoken::convert::convert_tokenizers;
use kitoken::{Kitoken, Processing};

use crate::base::diagnostic::{Diagnostic, Severity};
use crate::base::digest::Digest;
use crate::cli::error::{CliError, Finding};
use crate::cli::suite::Source;
use crate::spec::target::NamedFile;
use crate::store::files::read_bounded;
use crate::wire::tokenizer::Tokenizer;

/// Largest tokenizer file, in bytes. The largest in use have 35 MB.
const MAX_FILE: u64 = 64 << 20;
/// Read once before anything is measured: words, digits, white space, and characters of several bytes.
const SAMPLE: &str = "Hello, world!  It's 12,345 \n\tgr\u{fc}n \u{65e5}\u{672c} \u{1f642}";

/// The tokenizer in the file.
///
/// # Errors
/// It cannot be read, or is no tokenizer; with the place where the file is named.
pub(crate) fn load(file: &NamedFile) -> Result<Tokenizer, CliError> {
    read(file).map_err(|Unusable { code, message, help }| match &file.place {
        Some(place) => {
            // Only for the picture: the file was read before, and may be gone.
            let text = Source::read(Path::new(&place.file)).map(|source| source.text).unwrap_or_default();
            let (place, key) = (place.clone(), file.key.clone());
            let diagnostic = Diagnostic { code, severity: Severity::Error, place, key, message, help };
            CliError::invalid(vec![Finding { diagnostic, text }])
        }
        None => CliError::usage(format!("{}: {message}", file.key)).hint(help),
    })
}

/// The tokenizer that `--tokenizer` names, where it does.
///
/// # Errors
/// As [`load`].
pub(crate) fn of_option(path: Option<&Path>) -> Result<Option<Tokenizer>, CliError> {
    let named =
        |path: &Path| NamedFile { path: path.display().to_string(), key: "--tokenizer".to_owned(), place: None };
    path.map(|path| load(&named(path))).transpose()
}

/// Why a file gives no tokenizer, and what to do.
struct Unusable {
    code: &'static str,
    message: String,
    help: String,
}

fn read(file: &NamedFile) -> Result<Tokenizer, Unusable> {
    let bytes = read_bounded(Path::new(&file.path), MAX_FILE).map_err(|error| Unusable {
        code: "unreadable-tokenizer",
        message: error.to_string(),
        help: "name the `tokenizer.json` that lies beside the model's weights".to_owned(),
    })?;
    let wrong = |why: String| Unusable {
        code: "wrong-tokenizer",
        message: format!("{} is no tokenizer that can be read: {why}", file.path),
        help:
            "name a Hugging Face `tokenizer.json` with a BPE, Unigram or WordPiece model; without `tokenizer`, answers \
               that come without usage are counted by their chunks"
                .to_owned(),
    };
    let tokenizer = guarded(|| counter(&bytes))
        .unwrap_or_else(|| Err("its parts contradict each other".to_owned()))
        .map_err(wrong)?;
    let count = move |text: &str| {
        let tokens = guarded(|| tokenizer.encode(text, true))?.ok()?;
        u32::try_from(tokens.len()).ok()
    };
    if count(SAMPLE).is_none() {
        return Err(wrong("it cannot count a simple text".to_owned()));
    }
    Ok(Tokenizer::new(Digest::of(&bytes), count))
}

/// What the bytes of a file describe.
fn counter(bytes: &[u8]) -> Result<Kitoken, String> {
    let mut definition = convert_tokenizers(bytes).map_err(|error| error.to_string())?;
    // Limits of a model's input say nothing about the length of an answer.
    let is_limit = |step: &Processing| matches!(step, Processing::Truncate { .. } | Processing::Pad { .. });
    definition.config.processing.retain(|step| !is_limit(step));
    Kitoken::try_from(definition).map_err(|error| error.to_string())
}

thread_local! {
    /// Whether this thread is within [`guarded`].
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs what may panic on a file that contradicts itself, such as a pattern that would search for ever; none if it did. Nothing is
/// printed: what follows from it is said in its place.
fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if !GUARDED.get() {
                before(panic);
            }
        }));
    });
    GUARDED.set(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(false);
    done.ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::Value;
    use tempfile::TempDir;

    use super::*;
    use crate::base::diagnostic::Place;

    /// Bytes are tokens, and so are `he`, `the`, ` the`, `ll`, `hell` and `hello`.
    const FILE: &str = include_str!("../../tests/data/tokenizer.json");

    /// Reads a tokenizer from a file of these bytes.
    fn of(bytes: impl AsRef<[u8]>) -> Result<Tokenizer, CliError> {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("tokenizer.json");
        fs::write(&path, bytes).unwrap();
        load(&NamedFile { path: path.display().to_string(), key: "--tokenizer".to_owned(), place: None })
    }

    /// The file after a change.
    fn changed(change: impl FnOnce(&mut Value)) -> String {
        let mut file = serde_json::from_str(FILE).unwrap();
        change(&mut file);
        file.to_string()
    }

    #[test]
    fn tokens_are_counted_as_the_file_says() {
        let tokenizer = of(FILE).unwrap();
        assert_eq!(tokenizer.file(), Digest::of(FILE.as_bytes()));
        // ` then` is ` the` and `n`; ` hello` is ` ` and `hello`; a character of three bytes is three tokens.
        for (text, tokens) in
            [("hello", 1), ("hello the then", 4), ("hello hello", 3), ("\u{65e5}", 3), ("hello</s>", 2), ("Hello", 4)]
        {
            assert_eq!(tokenizer.count(text), Some(tokens), "{text}");
        }
        assert_eq!(tokenizer.count(""), None);
    }

    #[test]
    fn a_limit_of_the_file_does_not_cut_what_is_counted() {
        let file = changed(|file| {
            file["truncation"] = serde_json::json!({
                "direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0
            });
        });
        assert_eq!(of(file).unwrap().count("hello the then"), Some(4));
    }

    #[test]
    fn what_is_no_tokenizer_is_refused_with_the_reason() {
        let deep = "[".repeat(100_000);
        let empty = changed(|file| file["model"]["vocab"] = Value::Object(serde_json::Map::new()));
        for file in ["", "null", "{}", "{\"model\": 7}", &deep, &empty, "\u{feff}{}", FILE.trim_end_matches("}\n")] {
            let error = of(file).unwrap_err();
            let start: String = file.chars().take(40).collect();
            assert!(error.message().contains("is no tokenizer that can be read"), "{start}: {}", error.message());
        }
    }

    #[test]
    fn a_pattern_that_would_search_for_ever_counts_nothing() {
        let file = changed(|file| {
            let split = r#"{"type": "Split", "pattern": {"Regex": "(a|aa)+(?!a)c|."}, "behavior": "Isolated", "invert": false}"#;
            let bytes = file["pre_tokenizer"].take();
            file["pre_tokenizer"] = serde_json::json!({
                "type": "Sequence", "pretokenizers": [serde_json::from_str::<Value>(split).unwrap(), bytes]
            });
            file["pre_tokenizer"]["pretokenizers"][1]["use_regex"] = false.into();
        });
        let tokenizer = of(file).unwrap();
        assert_eq!((tokenizer.count("hi"), tokenizer.count(&"a".repeat(100))), (Some(2), None));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named_where_it_is_named() {
        let folder = TempDir::new().unwrap();
        let (config, huge) = (folder.path().join("servegate.yaml"), folder.path().join("huge.json"));
        fs::write(&config, "tokenizer: x\n").unwrap();
        fs::File::create(&huge).unwrap().set_len(MAX_FILE + 1).unwrap();
        let place = Place { file: config.display().to_string(), line: 1, column: 12, span: 11..12 };
        let missing = folder.path().join("none.json");
        for (path, why) in
            [(missing.as_path(), "cannot read"), (folder.path(), "it is a folder"), (huge.as_path(), "67108864")]
        {
            let error = load(&NamedFile {
                path: path.display().to_string(),
                key: "tokenizer".to_owned(),
                place: Some(place.clone()),
            })
            .unwrap_err();
            let [Finding { diagnostic, text }] = error.findings() else { panic!("{error:?}") };
            assert_eq!((diagnostic.code, &diagnostic.place), ("unreadable-tokenizer", &place));
            assert!(diagnostic.message.contains(why), "{}", diagnostic.message);
            assert_eq!(text, "tokenizer: x\n");
        }
    }
}
