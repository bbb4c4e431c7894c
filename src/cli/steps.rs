//! Commands that a reader may type next, as they are printed: whole, and ready for a shell.

use std::path::{Path, PathBuf};

use crate::cli::error::CliError;
use crate::cli::folders;
use crate::cli::suite::Suite;
use crate::cli::target::TargetArgs;
use crate::spec::target::Config;

/// The release under judgement when none is named.
pub(crate) const UNNAMED: &str = "candidate";

/// Where a measurement is, and where it can become a baseline.
pub(crate) struct Folders<'a> {
    /// Folders of its runs.
    pub(crate) runs: &'a [PathBuf],
    /// Folder of the baselines.
    pub(crate) store: &'a Path,
    /// What a command reads that names none.
    pub(crate) config: &'a Config,
}

impl Folders<'_> {
    /// The command that makes the runs of a release the baseline, with options of its own.
    fn refresh(&self, own: &[&str], release: &str) -> Vec<String> {
        let mut refresh = words(&["servegate", "baseline", "refresh"]);
        refresh.extend(words(own));
        refresh.extend(self.store());
        refresh.extend(words(&["--release", release, "--approved-by", "WHO", "--runs"]));
        refresh.extend(self.runs.iter().map(|runs| runs.display().to_string()));
        refresh
    }

    /// The option that names the folder of the baselines, where a command would not find it by itself.
    fn store(&self) -> Vec<String> {
        let found = folders::store(None, self.config) == self.store;
        if found { vec![] } else { vec!["--store".to_owned(), self.store.display().to_string()] }
    }
}

/// What to do with a measurement that passed once its release is approved.
pub(crate) fn approve(suite: &Suite, release: &str, folders: &Folders<'_>) -> String {
    let name = &suite.workload.name;
    if release == UNNAMED {
        return format!(
            "note: to make a measurement of `{name}` the next baseline after approval, name its release: servegate run \
             --release TAG"
        );
    }
    let mut refresh = folders.refresh(&[], release);
    refresh.push("--policy".to_owned());
    refresh.extend(suite.policies.iter().map(|loaded| loaded.source.name.clone()));
    format!("next, when {release} is approved, to make it the baseline of `{name}`:\n  {}", command(&refresh))
}

/// What to do with a measurement that failed where its regression is accepted, by the command that [`rebase`] gives.
pub(crate) fn accept(workload: &str, rebase: &str) -> String {
    format!("if the regression of `{workload}` is accepted, once its release is approved:\n  {rebase}")
}

/// The command that makes a measurement the baseline although it is worse.
pub(crate) fn rebase(release: &str, folders: &Folders<'_>) -> String {
    let mut refresh = folders.refresh(&[], release);
    refresh.extend(words(&["--rebase", "REASON"]));
    command(&refresh)
}

/// A gate without a baseline to compare with.
pub(crate) fn missing_baseline(suite: &Suite, target: &TargetArgs, (store, config): (&Path, &Config)) -> CliError {
    let name = &suite.workload.name;
    let mut measure = words(&["servegate", "measure", "--workload", &suite.source.name]);
    measure.extend(target.words());
    measure.extend(words(&["--release", "TAG", "--out", "runs"]));
    let refresh = Folders { runs: &["runs".into()], store, config }.refresh(&["--initial"], "TAG");
    CliError::not_comparable(format!("there is no baseline of the workload `{name}`, so nothing was measured"))
        .hint(format!("measure an approved release: {}", command(&measure)))
        .hint(format!("and make it the first baseline: {}", command(&refresh)))
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A command as one types it.
fn command(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// A word as a POSIX shell reads it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '=' | ':' | '@' | '+' | ',');
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_can_be_pasted_into_a_shell() {
        for (word, shown) in
            [("servegate-out/runs/a", "servegate-out/runs/a"), ("a b", "'a b'"), ("it's", r"'it'\''s'"), ("", "''")]
        {
            assert_eq!(quoted(word), shown);
        }
    }

    #[test]
    fn a_folder_of_baselines_is_named_where_a_command_would_not_find_it() {
        let configured = Config { baselines: Some("kept".to_owned()), ..Config::default() };
        for (config, store, named) in [
            (&Config::default(), "baselines", ""),
            (&Config::default(), "kept", "--store kept "),
            (&configured, "kept", ""),
            (&configured, "baselines", "--store baselines "),
        ] {
            let folders = Folders { runs: &["runs/a".into()], store: Path::new(store), config };
            let expected = format!(
                "servegate baseline refresh {named}--release v2 --approved-by WHO --runs runs/a --rebase REASON"
            );
            assert_eq!(rebase("v2", &folders), expected);
        }
    }
}
