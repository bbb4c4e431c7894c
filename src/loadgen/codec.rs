//! How planned requests become bytes, and what came back becomes records.

use crate::artifact::record::{Chunk, Record};
use crate::base::secret::Secret;
use crate::base::units::Nanos;
use crate::loadgen::drive::Message;
use crate::plan::prompt;
use crate::plan::request::{PlannedCell, PlannedRequest, PromptRecipe};
use crate::plan::talk::Talk;
use crate::wire::decoded::Wanted;
use crate::wire::dialect::{Dialect, Prompt, Template};
use crate::wire::tokenizer::Tokenizer;
use crate::wire::transport::Exchange;

/// The interface and the request body of one target.
#[derive(Clone)]
pub struct Codec {
    /// HTTP interface.
    pub dialect: Dialect,
    /// Request body.
    pub template: Template,
    /// Name of the run: the first part of every request's id.
    pub run: String,
    /// The API key, which no record may repeat after the server.
    pub api_key: Option<Secret>,
    /// Counts the answers for which the server does not.
    pub tokenizer: Option<Tokenizer>,
}

impl Codec {
    /// The message of a planned request; its prompt's text is made here. `answer` gives what the model said at a turn
    /// before it, where its session goes on from that.
    pub fn message(
        &self,
        cell: &PlannedCell,
        request: &PlannedRequest,
        answer: impl Fn(u32) -> Option<String>,
    ) -> Message {
        let (tokens, seed) = (request.output_tokens, request.prompt.seed);
        let body = match (prompt::ids(&request.prompt), self.talk(cell)) {
            (Some(ids), _) => self.template.body(Prompt::Ids(&ids), tokens, seed),
            (None, Some(talk)) => {
                let said = talk.messages(request, |recipe| self.text(recipe), answer);
                self.template.body(Prompt::Talk(&said), tokens, seed)
            }
            (None, None) => self.template.body(Prompt::Text(&self.text(&request.prompt)), tokens, seed),
        };
        let request_id = format!("{}/{}/{}", self.run, cell.name, request.number);
        let session = request.turn.map(|turn| format!("{}/{}/session-{}", self.run, cell.name, turn.session));
        Message { request_id, session, path: self.dialect.path(), body }
    }

    /// What a cell's conversations are, where they are sent as messages: one text keeps the planned words, and their exact
    /// length, where the interface has no messages and nothing was said that is not planned.
    fn talk(&self, cell: &PlannedCell) -> Option<Talk> {
        cell.talk.filter(|talk| self.dialect.takes_messages() || talk.goes_on_from_answers())
    }

    /// What the model said in an exchange, without the reasoning before it.
    pub(super) fn answer(&self, exchange: &Exchange) -> String {
        let wanted = Wanted { output_tokens: u32::MAX, forced: false };
        let mut decoded = self.dialect.decode_with(None, exchange, wanted);
        let answer = decoded.said.split_off(decoded.answer_from.min(decoded.said.len()));
        self.without_key(answer)
    }

    /// The text of a prompt. One of exact length whose tokenizer finds no such text is one of plain words: how many tokens
    /// the server counts shows it.
    fn text(&self, recipe: &PromptRecipe) -> String {
        let counted = match &self.tokenizer {
            Some(tokenizer) => prompt::counted(recipe, Some(&|text| tokenizer.count(text))),
            None => prompt::counted(recipe, None),
        };
        counted.unwrap_or_else(|| prompt::text(recipe))
    }

    fn without_key(&self, text: String) -> String {
        match &self.api_key {
            Some(key) => key.hide_in(&text),
            None => text,
        }
    }

    /// The record of a measured request that has ended, in the stored resolution, and the text of its answer.
    pub fn record(&self, cell: &PlannedCell, request: &PlannedRequest, exchange: &Exchange) -> (Record, String) {
        let wanted = self.template.wanted(request.output_tokens);
        let decoded = self.dialect.decode_with(self.tokenizer.as_ref(), exchange, wanted);
        let stored = Nanos::to_stored_resolution;
        let record = Record {
            cell: cell.name.clone(),
            request: request.number,
            class: request.class.as_deref().map(str::to_owned),
            turn: request.turn.map(|turn| turn.turn),
            due: stored(exchange.due),
            sent: stored(exchange.sent),
            connect: exchange.connect.map(stored),
            tls: exchange.tls.map(stored),
            head: exchange.head.map(stored),
            first_byte: decoded.first_byte.map(stored),
            first_answer: decoded.first_answer.map(stored),
            chunks: decoded.chunks.iter().map(|chunk| Chunk { at: stored(chunk.at), ..*chunk }).collect(),
            reads: u32::try_from(exchange.reads.len()).unwrap_or(u32::MAX),
            end: stored(exchange.end),
            prompt_tokens: decoded.prompt_tokens,
            cached_tokens: decoded.cached_tokens,
            output_tokens: decoded.output_tokens,
            reasoning_tokens: decoded.reasoning_tokens,
            tokens_from: decoded.tokens_from,
            doubt: decoded.doubt,
            text_bytes: decoded.text_bytes,
            text_digest: (decoded.text_bytes > 0).then(|| decoded.text.into()),
            finish: decoded.finish.map(|finish| self.without_key(finish)),
            outcome: decoded.outcome,
            detail: decoded.detail.map(|detail| self.without_key(detail)),
        };
        let record = record.in_order();
        (record, self.without_key(decoded.said))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::artifact::codec::write::RecordWriter;
    use crate::artifact::record::Outcome;
    use crate::base::digest::Digest;
    use crate::base::names::Api;
    use crate::loadgen::scripted::cell;
    use crate::spec::workload::Load;
    use crate::wire::dialect;
    use crate::wire::transport::{Failure, Read};

    #[test]
    fn a_planned_request_becomes_a_body_and_its_answer_a_record_in_whole_microseconds() {
        let dialect = dialect::of(Api::Completions);
        let template = Template::new(&dialect, "m", &serde_json::Map::new());
        let codec = Codec { dialect, template, run: "s1-00".to_owned(), api_key: None, tokenizer: None };
        let cell = cell("c1", Load::Closed { concurrency: 1 }, 0, 3);
        let request = &cell.requests[2];
        let Message { request_id, session, path, body } = codec.message(&cell, request, |_turn| None);
        assert_eq!(session, None);
        assert_eq!(request_id, "s1-00/c1/2");
        let sent: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((path, &sent["model"], &sent["max_tokens"]), ("/v1/completions", &json!("m"), &json!(8)));
        assert_eq!(sent["prompt"].as_str().unwrap().split(' ').count(), 2);

        let body = "data: {\"choices\":[{\"index\":0,\"text\":\"a\"}]}\n\ndata: [DONE]\n\n".as_bytes().to_vec();
        let exchange = Exchange {
            id: 0,
            due: Nanos(1_400),
            sent: Nanos(2_600),
            connect: None,
            tls: None,
            status: Some(200),
            head: Some(Nanos(9_000)),
            reads: vec![Read { at: Nanos(10_499), end: body.len() }],
            body,
            end: Nanos(20_500),
            failure: None,
            resent: false,
        };
        let (record, text) = codec.record(&cell, request, &exchange);
        assert_eq!((text.as_str(), record.text_bytes), ("a", 1));
        assert_eq!(record.text_digest, Some(Digest::of(b"a").into()));
        assert_eq!((record.cell.as_str(), record.request, record.outcome), ("c1", 2, Outcome::Ok));
        let instants = [record.due, record.sent, record.first_byte.unwrap(), record.chunks[0].at, record.end];
        assert_eq!(instants, [1_000, 3_000, 10_000, 10_000, 21_000].map(Nanos));
    }

    proptest! {
        #[test]
        fn whatever_a_transport_stamps_the_record_can_be_stored_and_read(
            [due, sent, head, end] in any::<[u32; 4]>(),
            reads in proptest::collection::vec(any::<u32>(), 0..6),
            (has_head, failed) in any::<(bool, bool)>(),
            status in prop_oneof![Just(None), Just(Some(200)), Just(Some(408)), Just(Some(503))],
        ) {
            let dialect = dialect::of(Api::Completions);
            let template = Template::new(&dialect, "m", &serde_json::Map::new());
            let codec = Codec { dialect, template, run: "s1-00".to_owned(), api_key: None, tokenizer: None };
            let cell = cell("c1", Load::Closed { concurrency: 1 }, 0, 1);
            let event = b"data: {\"choices\":[{\"index\":0,\"text\":\"a\"}]}\n\n";
            let at = |ns: u32| Nanos(u64::from(ns));
            let exchange = Exchange {
                id: 0,
                due: at(due),
                sent: at(sent),
                connect: None,
                tls: None,
                status,
                head: has_head.then_some(at(head)),
                reads: reads.iter().enumerate().map(|(n, ns)| Read { at: at(*ns), end: (n + 1) * event.len() }).collect(),
                body: event.repeat(reads.len()),
                end: at(end),
                failure: failed.then_some(Failure::Stalled),
                resent: false,
            };
            let (record, _) = codec.record(&cell, &cell.requests[0], &exchange);
            let mut writer = RecordWriter::new(Vec::new()).unwrap();
            writer.write(&record).unwrap();
            writer.finish().unwrap();
            prop_assert_eq!(record.clone().in_order(), record);
        }
    }
}
