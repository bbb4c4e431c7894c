//! ShareGPT conversations (`conversations` with `from` and `value`): every answer is a request whose prompt is all that was
//! said before. There are no instants, and lengths are counted from the texts.

use serde::Deserialize;

use crate::trace::Input;
use crate::trace::collect::{Collector, Link};
use crate::trace::faults::Kind;
use crate::trace::formats::Marks;
use crate::trace::items::{Items, row};
use crate::trace::refused::Refused;
use crate::trace::request::Request;
use crate::trace::tokens::Counted;

const FIELDS: &str = "conversations with from and value";
/// Names of the model among the speakers.
const MODEL: &[&str] = &["gpt", "chatgpt", "assistant", "model", "bing", "bard"];

pub(super) const MARKS: Marks = Marks::Keys(&[&["conversations"]]);

#[derive(Deserialize)]
struct Conversation {
    conversations: Vec<Said>,
}

#[derive(Deserialize)]
struct Said {
    #[serde(alias = "role")]
    from: String,
    #[serde(alias = "content", default)]
    value: serde_json::Value,
}

pub(super) fn read(input: Input<'_>, collector: &mut Collector<'_>) -> Result<(), Refused> {
    collector.arrivals = false;
    let (mut sessions, mut requests) = (0_u32, 0_u32);
    Items::of(input)?.each(collector, |collector, line, text| {
        let found: Conversation = row(text, FIELDS)?;
        let (session, mut said, mut parent, mut asked) = (sessions, 0_u32, None, false);
        for turn in &found.conversations {
            let counted = Counted::of(&turn.value, collector.count());
            if counted.media {
                collector.faults.add(Kind::Media, line, "");
            }
            if MODEL.contains(&turn.from.as_str()) {
                let request = Request {
                    prompt_tokens: said,
                    output_tokens: Some(counted.tokens),
                    session: Some(session),
                    ..Request::default()
                };
                collector.request(line, request, Link { own: Some(requests), parent });
                collector.faults.add(Kind::CountedLength, line, "");
                parent = (said > 0 && counted.tokens > 0).then_some(requests).or(parent);
                requests = requests.saturating_add(1);
                asked = false;
            } else {
                asked = true;
            }
            said = said.saturating_add(counted.tokens);
        }
        if asked {
            collector.faults.add(Kind::Unanswered, line, "");
        }
        sessions = sessions.saturating_add(1);
        Ok(())
    })
}
