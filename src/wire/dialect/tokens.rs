//! The token accounting of one answer: what usage objects count, what each event tells, and where these disagree.

use crate::wire::decoded::Doubt;

/// The counts of one usage object, in the words of all dialects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Prompt tokens, cached ones included.
    pub(super) prompt: Option<u32>,
    /// Of these, from the prefix cache.
    pub(super) cached: Option<u32>,
    /// Output tokens so far, reasoning included.
    pub(super) output: Option<u32>,
    /// Of these, reasoning.
    pub(super) reasoning: Option<u32>,
}

/// What an event tells about its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// Nothing.
    Nothing,
    /// The output tokens so far.
    Total(u32),
    /// Its own tokens.
    Fresh(u32),
}

/// What the stream showed, beside which the usage is held.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shown {
    /// Events with content.
    pub(super) chunks: u32,
    /// Tool calls came: their pieces may be several for one token.
    pub(super) called: bool,
    /// Reasoning text came.
    pub(super) reasoned: bool,
    /// Tokens of the whole text, by the tokenizer.
    pub(super) of_text: Option<u32>,
}

/// The share by which the usage may differ from the tokens of the text: a model need not write a text in the tokens that
/// a tokenizer cuts it into.
const TEXT_TOLERANCE: f64 = 0.1;
/// So many more may always be: those that end an answer, or part its reasoning from the rest (11 in gpt-oss), have no
/// text.
const WITHOUT_TEXT: f64 = 16.0;
/// So many fewer may always be: where reasoning and answer meet, the text may be cut otherwise.
const AT_BORDERS: f64 = 4.0;

/// The accounting so far.
#[derive(Default)]
pub(super) struct Tokens {
    /// Each count from the last usage object that gave it.
    counts: Counts,
    /// Tokens that the events have told so far.
    shown: u32,
    /// Of these, those up to the last content event.
    until: u32,
    /// Tokens of the events that told their own.
    listed: u32,
    /// A content event came that did not tell its tokens.
    untold: bool,
}

impl Tokens {
    /// Takes the counts of a usage object.
    pub(super) fn add(&mut self, counts: Counts) {
        self.counts = Counts {
            prompt: counts.prompt.or(self.counts.prompt),
            cached: counts.cached.or(self.counts.cached),
            output: counts.output.or(self.counts.output),
            reasoning: counts.reasoning.or(self.counts.reasoning),
        };
    }

    /// Takes what an event tells. For one with content, gives the tokens that came since the content event before
    /// it: tokens without visible text count towards the next event that has some.
    pub(super) fn told(&mut self, told: Told, content: bool) -> Option<u32> {
        match told {
            Told::Nothing => {}
            Told::Total(total) => self.shown = total,
            Told::Fresh(fresh) => {
                self.listed = self.listed.saturating_add(fresh);
                self.shown = self.shown.saturating_add(fresh);
            }
        }
        if !content {
            return None;
        }
        let fresh = self.shown.checked_sub(self.until).filter(|fresh| *fresh > 0);
        let fresh = if told == Told::Nothing { None } else { fresh };
        self.untold |= fresh.is_none();
        self.until = self.shown;
        fresh
    }

    /// The last counts.
    pub(super) const fn counts(&self) -> Counts {
        self.counts
    }

    /// Output tokens by the usage.
    pub(super) const fn output(&self) -> Option<u32> {
        self.counts.output
    }

    /// Tokens that the events have told.
    pub(super) fn shown(&self) -> u32 {
        self.shown.max(self.until)
    }

    /// Whether every content event told its tokens, and the usage does not say that there are fewer.
    pub(super) fn all_told(&self) -> bool {
        !self.untold && self.counts.output.is_none_or(|output| self.until.max(self.listed) <= output)
    }

    /// Where the accounts contradict each other, although the stream is whole: the first that holds. A healthy engine may
    /// give several tokens in a chunk, and one token without text at the end; both are no contradiction.
    pub(super) fn doubt(&self, wanted: u32, shown: &Shown) -> Option<Doubt> {
        let Some(output) = self.counts.output else {
            // Without usage chunks are taken for tokens, which they are not where there are more than may be.
            let more = !shown.called && shown.of_text.is_none() && shown.chunks > wanted.saturating_add(1);
            return more.then_some(Doubt::MoreChunksThanWanted);
        };
        let hidden = self.counts.reasoning.filter(|_| !shown.reasoned).unwrap_or_default();
        if output > wanted {
            Some(Doubt::MoreThanWanted)
        } else if !shown.called && shown.chunks > output.saturating_add(1) {
            Some(Doubt::FewerThanChunks)
        } else if self.listed > output {
            Some(Doubt::FewerThanListed)
        } else if hidden > 0 {
            Some(Doubt::HiddenReasoning)
        } else if self.listed > 0 && !self.untold && self.listed.saturating_add(1) < output {
            Some(Doubt::MoreThanListed)
        } else {
            shown.of_text.and_then(|tokens| beside_text(output, tokens))
        }
    }
}

/// Whether a usage and the tokens of the text contradict each other.
fn beside_text(output: u32, of_text: u32) -> Option<Doubt> {
    let (output, of_text) = (f64::from(output), f64::from(of_text));
    let tolerance = TEXT_TOLERANCE * of_text;
    if output > of_text + tolerance.max(WITHOUT_TEXT) {
        Some(Doubt::MoreThanText)
    } else if output < of_text - tolerance.max(AT_BORDERS) {
        Some(Doubt::FewerThanText)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_and_lists_give_the_tokens_of_each_chunk() {
        let mut tokens = Tokens::default();
        let told = |tokens: &mut Tokens, told| tokens.told(told, true);
        assert_eq!(told(&mut tokens, Told::Total(1)), Some(1));
        assert_eq!(told(&mut tokens, Told::Total(4)), Some(3));
        assert_eq!(tokens.told(Told::Total(5), false), None);
        assert_eq!(told(&mut tokens, Told::Total(8)), Some(4), "a token without text counts towards the next chunk");
        assert_eq!(told(&mut tokens, Told::Fresh(2)), Some(2));
        assert!(tokens.all_told());
        assert_eq!(told(&mut tokens, Told::Total(10)), None, "a count that does not rise tells nothing");
        assert!(!tokens.all_told());
    }

    #[test]
    fn contradictions_are_named_and_healthy_streams_have_none() {
        let account = |lists: &[u32], output: u32, reasoning: Option<u32>| {
            let mut tokens = Tokens::default();
            for list in lists {
                tokens.told(Told::Fresh(*list), true);
            }
            tokens.add(Counts { output: Some(output), reasoning, ..Counts::default() });
            tokens
        };
        let shown = |chunks| Shown { chunks, ..Shown::default() };
        // One each; several in a chunk; an end token without text.
        for (lists, output) in [(vec![1, 1, 1], 3), (vec![2, 3], 5), (vec![1, 1], 3)] {
            let chunks = u32::try_from(lists.len()).unwrap();
            assert_eq!(account(&lists, output, None).doubt(8, &shown(chunks)), None, "{lists:?}");
        }
        assert_eq!(account(&[1, 1], 9, None).doubt(8, &shown(2)), Some(Doubt::MoreThanWanted));
        assert_eq!(account(&[1; 5], 3, None).doubt(8, &shown(5)), Some(Doubt::FewerThanChunks));
        assert_eq!(account(&[4], 3, None).doubt(8, &shown(1)), Some(Doubt::FewerThanListed));
        assert_eq!(
            account(&[1; 5], 3, None).doubt(8, &Shown { called: true, ..shown(5) }),
            Some(Doubt::FewerThanListed)
        );
        assert_eq!(account(&[1; 5], 8, None).doubt(8, &shown(5)), Some(Doubt::MoreThanListed));
        assert_eq!(account(&[1; 5], 8, Some(3)).doubt(8, &shown(5)), Some(Doubt::HiddenReasoning));
        assert_eq!(
            account(&[1; 5], 5, Some(3)).doubt(8, &Shown { reasoned: true, ..shown(5) }),
            None,
            "reasoning that is in the stream"
        );
        let text = |of_text| Shown { of_text: Some(of_text), ..Shown::default() };
        let beside = |output, of_text| account(&[], output, None).doubt(1_000, &text(of_text));
        for (output, of_text) in [(58, 47), (116, 100), (90, 100), (16, 20), (900, 1_000), (17, 1)] {
            assert_eq!(beside(output, of_text), None, "{output} {of_text}");
        }
        assert_eq!((beside(117, 100), beside(89, 100)), (Some(Doubt::MoreThanText), Some(Doubt::FewerThanText)));
        assert_eq!((beside(1_000, 909), beside(15, 20)), (Some(Doubt::MoreThanText), Some(Doubt::FewerThanText)));
        assert_eq!(account(&[], 9, Some(5)).doubt(9, &text(90)), Some(Doubt::HiddenReasoning), "it explains more");
        assert_eq!(Tokens::default().doubt(9, &shown(9)), None, "without usage there is nothing to contradict");
        assert_eq!(Tokens::default().doubt(1, &shown(9)), Some(Doubt::MoreChunksThanWanted));
        assert_eq!(Tokens::default().doubt(1, &Shown { called: true, ..shown(9) }), None, "pieces of a call");
    }
}
