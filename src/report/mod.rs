//! A judgement as people and machines read it: one view model ([`view::View`]), one exporter for each
//! format, one line for each in [`FORMATS`].
//!
//! Exporters are pure: the same view gives the same bytes, wherever and whenever it is rendered. The view
//! holds text as it came; each exporter escapes it for its own format where it writes it ([`escape`]).

pub mod effects;
pub mod escape;
#[cfg(test)]
mod fixture;
pub mod format;
pub mod json;
pub mod junit;
pub mod markdown;
pub mod terminal;
pub mod view;

use crate::report::view::View;

/// One way to write a view.
pub struct Format {
    /// Name, for people who read this table.
    pub id: &'static str,
    /// The file that a gate writes; none for what only goes to a terminal.
    pub file: Option<&'static str>,
    /// View to bytes.
    pub render: fn(&View<'_>) -> Result<Vec<u8>, ReportError>,
}

/// Every format.
pub const FORMATS: &[Format] = &[
    Format { id: "junit", file: Some("junit.xml"), render: |view| Ok(junit::render(view)?.into_bytes()) },
    Format { id: "json", file: Some("verdict.json"), render: |view| Ok(json::render(view)?) },
    Format {
        id: "md",
        file: Some("summary.md"),
        render: |view| Ok(markdown::render(view, markdown::STEP_SUMMARY_LIMIT).into_bytes()),
    },
    Format { id: "terminal", file: None, render: |view| Ok(terminal::render(view, false).into_bytes()) },
];

/// A view could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The JUnit file.
    #[error("junit.xml: {0}")]
    Junit(#[from] junit::JunitError),
    /// The JSON file.
    #[error("verdict.json: {0}")]
    Json(#[from] serde_json::Error),
}

/// Every report that is a file: its name and its bytes, in the order of [`FORMATS`].
///
/// # Errors
/// When an exporter cannot write the view; none of the files is returned then, so that no reader sees
/// half an answer.
pub fn render(view: &View<'_>) -> Result<Vec<(&'static str, Vec<u8>)>, ReportError> {
    FORMATS.iter().filter_map(|format| Some((format.file?, format))).try_fold(
        Vec::new(),
        |mut files, (name, format)| {
            files.push((name, (format.render)(view)?));
            Ok(files)
        },
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::report::view::ExitPolicy;

    #[test]
    fn the_same_judgement_gives_the_same_bytes() {
        let judgement = fixture::rich();
        let context = fixture::context(ExitPolicy::Strict);
        let first = render(&View::new(&judgement, &context)).unwrap();
        let second = render(&View::new(&judgement.clone(), &context.clone())).unwrap();
        assert_eq!(first, second);
        let files: Vec<&str> = FORMATS.iter().filter_map(|format| format.file).collect();
        assert_eq!(first.iter().map(|(name, _)| *name).collect::<Vec<_>>(), files);
        let names: BTreeSet<&str> = FORMATS.iter().map(|format| format.id).chain(files.iter().copied()).collect();
        assert_eq!(names.len(), FORMATS.len() + files.len(), "two formats of one name");
    }

    #[test]
    fn advisory_mode_says_so_in_every_format() {
        let judgement = fixture::rich();
        let context = fixture::context(ExitPolicy::Advisory);
        let view = View::new(&judgement, &context);
        for format in FORMATS {
            let text = String::from_utf8((format.render)(&view).unwrap()).unwrap();
            let words: Vec<&str> = text.split_whitespace().collect();
            assert!(
                words.join(" ").contains("Advisory mode: this verdict is reported and not enforced"),
                "{}",
                format.id
            );
        }
    }
}
