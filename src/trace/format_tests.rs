//! Every format with right values.

use crate::base::units::Nanos;
use crate::trace::faults::{Effect, Kind};
use crate::trace::normal::{NotWritten, write};
use crate::trace::refused::Refused;
use crate::trace::request::{Gaps, Request, Requests, Traffic, Window};
use crate::trace::shape::{self, Sessions, Sharing, Ticks};
use crate::trace::testing::{reading, sample};
use crate::trace::{Format, Reading, read, tokens};

/// The requests of a text.
#[track_caller]
fn requests(text: &str) -> Requests {
    of(reading(text))
}

#[track_caller]
fn of(reading: Reading) -> Requests {
    let Traffic::Requests(requests) = reading.traffic else { panic!("windows") };
    requests
}

/// Instants in us and lengths of every request.
fn lengths(requests: &Requests) -> Vec<(u64, u32, Option<u32>)> {
    requests.rows.iter().map(|row| (row.at.0.div_euclid(1_000), row.prompt_tokens, row.output_tokens)).collect()
}

/// Session, turn and parent of every request.
fn threads(requests: &Requests) -> Vec<(Option<u32>, Option<u32>, Option<u32>)> {
    requests.rows.iter().map(|row| (row.session, row.turn, row.parent)).collect()
}

#[track_caller]
fn refused(text: &str, format: Option<Format>) -> String {
    read("trace", text.as_bytes(), format, &tokens::estimate).unwrap_err().to_string()
}

#[test]
fn every_format_is_known_by_what_it_holds() {
    let page = include_str!("../../docs/traffic.md");
    for format in Format::ALL {
        assert!(page.contains(&format!("\n| `{format}` |")), "docs/traffic.md lacks {format}");
        let text = sample(format, "hidden");
        let found = reading(&text);
        assert_eq!(found.format, format, "{}", found.why);
        assert_eq!(format.name().parse(), Ok(format));
        assert_eq!(serde_json::to_string(&format).unwrap(), format!("\"{format}\""));
        let named = read("trace", text.as_bytes(), Some(format), &tokens::estimate).unwrap();
        assert_eq!((named.traffic, named.faults), (found.traffic, found.faults));
        assert_eq!(named.why, format!("`--format {format}`"));
    }
    assert_eq!("vllm".parse::<Format>().unwrap_err().to_string().split(';').next(), Some("not a format of traces"));
}

#[test]
fn azure_rows_keep_seven_digits_and_end_without_a_line_break() {
    let text = sample(Format::Azure, "x");
    let found = reading(&text);
    assert_eq!(found.faults.sentences(Effect::Faulty), ["no instant since 1970: 1 (line 5: TIMESTAMP)"]);
    assert_eq!(found.faults.sentences(Effect::Noted), ["earlier than the row in front; put in its place: 1 (line 4)"]);
    let requests = of(found);
    assert_eq!(requests.rows[2].at, Nanos(4_314_579_000));
    assert_eq!(lengths(&requests), [(0, 374, Some(44)), (2_319_410, 12, Some(1)), (4_314_579, 396, Some(109))]);
    let zoned = "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,2162,5\n\
                 2024-05-10 01:00:00.010930+01:00,2399,6\n";
    assert_eq!(lengths(&self::requests(zoned)), [(0, 2_162, Some(5)), (1_000, 2_399, Some(6))]);
}

#[test]
fn mooncake_keeps_blocks_and_shows_ticks() {
    let found = reading(&sample(Format::Mooncake, "x"));
    assert_eq!(found.faults.rows(Kind::FailedRequest), 1);
    assert_eq!(found.faults.sentences(Effect::Faulty).len(), 1);
    assert_eq!(found.faults.sentences(Effect::Noted), ["blocks do not fit the length of the prompt: 1 (line 4)"]);
    let requests = of(found);
    assert_eq!(requests.block_tokens, Some(512));
    assert_eq!(lengths(&requests), [(0, 1_300, Some(52)), (0, 1_030, Some(26)), (3_000_000, 600, Some(9))]);
    let blocks: Vec<&[u64]> = requests.rows.iter().map(|row| row.blocks.as_slice()).collect();
    assert_eq!(blocks, [&[0, 1, 2][..], &[0, 1, 3], &[0]]);
    let ticks = Ticks { instants: 2, repeated: 1, largest: 2, step: Nanos::from_secs(3) };
    assert_eq!(shape::ticks(&requests), ticks);
    assert_eq!(shape::sharing(&requests), Sharing { blocks: 7, different: 4, repeated: 3 });
}

#[test]
fn burstgpt_is_read_by_names_of_columns_in_both_orders() {
    let second = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n\
                  45,ChatGPT,1087,230,1317,Conversation log\n118,GPT-4,417,276,693,API log\n";
    let requests = requests(second);
    assert_eq!(lengths(&requests), [(0, 472, Some(18)), (40_000_000, 1_087, Some(230)), (113_000_000, 417, Some(276))]);
    assert_eq!(requests.classes, ["chatgpt-conversation", "gpt-4-api"]);
    assert_eq!(requests.rows[2].class, Some(1));
    assert_eq!(threads(&requests), [(None, None, None); 3]);
    let found = reading(&sample(Format::Burstgpt, "x"));
    let left_out = ["failed request: no output tokens: 1 (line 5)", "neither input nor output tokens: 1 (line 6)"];
    assert_eq!(found.faults.sentences(Effect::LeftOut), left_out);
    let third = of(found);
    assert_eq!(lengths(&third), lengths(&requests));
    assert_eq!(threads(&third), [(Some(0), Some(1), None), (None, None, None), (Some(0), Some(2), None)]);
    assert_eq!(third.classes, ["chatgpt-conversation", "class-2", "class-3"]);
}

#[test]
fn bailian_sessions_follow_their_parents() {
    let found = reading(&sample(Format::Bailian, "x"));
    assert_eq!(found.faults.rows(Kind::UnknownParent), 1);
    let requests = of(found);
    assert_eq!(requests.block_tokens, Some(16));
    assert_eq!(lengths(&requests), [(0, 30, Some(5)), (2_386_000, 40, Some(6)), (2_886_000, 16, Some(6))]);
    let expected = [(Some(0), Some(1), None), (Some(0), Some(2), Some(0)), (Some(1), Some(3), None)];
    assert_eq!(threads(&requests), expected);
    assert_eq!(requests.classes, ["text", "class-2", "search"]);
    assert_eq!(shape::sessions(&requests), Sessions { turns: vec![2, 1], continued: 1 });
    assert_eq!(shape::sharing(&requests).repeated, 2);
    let own = r#"{"chat_id": 1, "parent_chat_id": 1, "timestamp": 0, "input_length": 1, "output_length": 1}"#;
    let twice = reading(&format!("{own}\n{own}\n"));
    assert_eq!((twice.faults.rows(Kind::UnknownParent), twice.faults.rows(Kind::SameIdentity)), (1, 1));
}

#[test]
fn servegen_holds_windows_of_rates() {
    let found = reading(&sample(Format::Servegen, "x"));
    assert_eq!(found.faults.sentences(Effect::Faulty).len(), 1);
    assert!(matches!(write(&found), Err(NotWritten::Windows(Format::Servegen))));
    let Traffic::Windows(windows) = found.traffic else { panic!("requests") };
    let length = Nanos::from_secs(600);
    let window = |at, rate_per_s, cv, gaps| Window { at: Nanos::from_secs(at), length, rate_per_s, cv, gaps };
    let expected = [
        window(0, 0.5, 2.0, Some(Gaps::Gamma { shape: 0.25, scale: 8.0 })),
        window(600, 0.0, 0.0, None),
        window(1_200, 1.5, 3.0, Some(Gaps::Weibull { shape: 0.5, scale: 0.25 })),
    ];
    assert_eq!(windows, expected);
}

#[test]
fn vidur_and_splitwise_count_in_seconds() {
    let rows = [(0, 374, Some(44)), (5_892_655, 91, Some(16))];
    assert_eq!(lengths(&requests(&sample(Format::Vidur, "x"))), rows);
    let without = requests("num_prefill_tokens,num_decode_tokens\n374.0,44\n91,16\n");
    assert!(!without.arrivals);
    assert_eq!(lengths(&without), [(0, 374, Some(44)), (0, 91, Some(16))]);
    let batches = requests(&sample(Format::Splitwise, "x"));
    assert_eq!(lengths(&batches), [(0, 374, Some(44)), (4_500_000, 396, Some(109)), (4_500_000, 396, Some(109))]);
    assert_eq!(batches.classes, ["class-1", "class-2"]);
}

#[test]
fn a_conversation_sends_all_that_was_said_before() {
    let found = reading(&sample(Format::Sharegpt, "x"));
    assert_eq!(
        found.faults.sentences(Effect::LeftOut),
        ["output tokens and no prompt: 1 (line 9)", "question without an answer: 1 (line 2)"]
    );
    assert_eq!(
        found.faults.sentences(Effect::Faulty),
        ["a field is missing or of a wrong type: 1 (line 8: conversations with from and value)"]
    );
    assert_eq!(found.faults.rows(Kind::CountedLength), 3);
    let requests = of(found);
    assert!(!requests.arrivals);
    assert_eq!(lengths(&requests), [(0, 2, Some(3)), (0, 6, Some(2))]);
    assert_eq!(threads(&requests), [(Some(0), Some(1), None), (Some(0), Some(2), Some(0))]);
    let lines = r#"{"conversations": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}"#;
    assert_eq!(lengths(&self::requests(&format!("{lines}\n{lines}\n"))), [(0, 1, Some(1)); 2]);
}

#[test]
fn a_batch_has_limits_in_place_of_lengths() {
    let found = reading(&sample(Format::OpenaiBatch, "x"));
    for (kind, rows) in [
        (Kind::NotARequest, 1),
        (Kind::BadField, 1),
        (Kind::OutputLimit, 1),
        (Kind::NoLimit, 1),
        (Kind::CountedLength, 2),
    ] {
        assert_eq!(found.faults.rows(kind), rows, "{kind:?}");
    }
    assert_eq!(lengths(&of(found)), [(0, 2, Some(100)), (0, 3, None)]);
}

#[test]
fn spans_are_requests_where_they_call_a_model() {
    let found = reading(&sample(Format::Otel, "x"));
    for kind in [Kind::NotARequest, Kind::FailedRequest, Kind::CountedLength] {
        assert_eq!(found.faults.rows(kind), 1, "{kind:?}");
    }
    assert_eq!(found.faults.sentences(Effect::LeftOut)[0], "failed request: no output tokens: 1 (line 11)");
    let requests = of(found);
    assert_eq!(lengths(&requests), [(0, 3, Some(2)), (1_500_000, 50, Some(7))]);
    assert_eq!(threads(&requests), [(Some(0), Some(1), None), (Some(0), Some(2), Some(0))]);
}

#[test]
fn spans_of_otlp_are_read_whole_and_by_lines() {
    let span = |id: &str, nanos: &str, tokens: u32| {
        format!(
            r#"{{"traceId": "t", "spanId": "{id}", "startTimeUnixNano": {nanos}, "attributes": [
                {{"key": "gen_ai.operation.name", "value": {{"stringValue": "chat"}}}},
                {{"key": "session.id", "value": {{"stringValue": "s"}}}},
                {{"key": "gen_ai.usage.input_tokens", "value": {{"intValue": "{tokens}"}}}},
                {{"key": "gen_ai.output.messages", "value": {{"arrayValue": {{"values": [
                    {{"kvlistValue": {{"values": [
                        {{"key": "role", "value": {{"stringValue": "assistant"}}}},
                        {{"key": "content", "value": {{"stringValue": "one two three"}}}}
                    ]}}}}
                ]}}}}}}
            ]}}"#
        )
    };
    let batch =
        |span: &str| format!(r#"{{"resourceSpans": [{{"resource": {{}}, "scopeSpans": [{{"spans": [{span}]}}]}}]}}"#);
    let (first, second) = (span("a", "\"1700000000000000000\"", 5), span("b", "1700000000000000500", 6));
    let whole = batch(&format!("{first}, {second}"));
    let by_lines = format!("{}\n{}\n", batch(&first).replace('\n', " "), batch(&second).replace('\n', " "));
    for text in [whole, by_lines, format!("[{first}, {second}]")] {
        let requests = requests(&text);
        assert_eq!(lengths(&requests), [(0, 5, Some(3)), (0, 6, Some(3))], "{text}");
        assert_eq!(requests.rows[1].at, Nanos(500));
        assert_eq!(threads(&requests), [(Some(0), Some(1), None), (Some(0), Some(2), None)]);
    }
}

#[test]
fn the_normal_form_is_read_as_it_was_written() {
    let found = reading(&sample(Format::Servegate, "x"));
    assert_eq!(
        found.faults.sentences(Effect::Faulty),
        [
            "not JSON: 2",
            "a field is missing or of a wrong type: 1 (line 4: at_us, prompt_tokens, and no other keys than those of the normal form)"
        ]
    );
    assert_eq!(found.faults.rows(Kind::Shorter), 1);
    let requests = of(found);
    assert_eq!(
        (requests.source, requests.block_tokens, requests.classes.as_slice()),
        (Format::Azure, Some(512), &["chat".to_owned()][..])
    );
    assert_eq!(threads(&requests), [(Some(0), Some(1), None), (Some(0), Some(2), Some(0))]);
    let written = "{\"servegate_trace\":1,\"source\":\"bailian\",\"arrivals\":true,\"block_tokens\":16,\"requests\":3,\"lost\":{},\
                   \"noted\":{\"unknown-parent\":1}}\n\
                   {\"at_us\":0,\"prompt_tokens\":30,\"output_tokens\":5,\"session\":0,\"turn\":1,\"class\":\"text\",\"blocks\":[0,1]}\n\
                   {\"at_us\":2386000,\"prompt_tokens\":40,\"output_tokens\":6,\"session\":0,\"turn\":2,\"parent\":0,\
                   \"class\":\"class-2\",\"blocks\":[0,1,2]}\n\
                   {\"at_us\":2886000,\"prompt_tokens\":16,\"output_tokens\":6,\"session\":1,\"turn\":3,\"class\":\"search\",\
                   \"blocks\":[3]}\n";
    let bytes = write(&reading(&sample(Format::Bailian, "x"))).unwrap();
    assert_eq!(String::from_utf8(bytes).unwrap(), written);
    assert!(refused("{\"servegate_trace\":2,\"source\":\"azure\"}\n", None).ends_with("of version 1"));
}

#[test]
fn what_is_no_trace_is_refused_with_a_reason() {
    for (text, reason) in [
        ("", "trace is empty"),
        (" \n\n", "trace is empty"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:1", "trace is a Git LFS pointer and not the data"),
        ("PAR1\u{15}", "trace is a Parquet file"),
        ("# Title\nsome text", "its first line is no JSON and no header of a table"),
        ("a,b,c\n1,2,3\n", "its first line has 3 fields and not the columns of a known table"),
        ("{\"messages\": [], \"size\": 1}\n", "its first value has the keys `messages`, `size`"),
        ("[1, 2]", "none of its first values is an object in UTF-8"),
        ("{\n \"spans\": [\n", "trace:3:0: not JSON"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n", "as `azure`: 0 rows and no request among them"),
        (
            "Timestamp,Request tokens,Response tokens\n1,5,0\n2,6,0\n",
            "2 rows and no request among them; failed request",
        ),
    ] {
        let message = refused(text, None);
        assert!(message.contains(reason), "{text:?}: {message}");
    }
    let message = refused("TIMESTAMP,ContextTokens,GeneratedTokens\n1,2,3\n2,2,3\n2023-11-16 18:15:46,1,1\n", None);
    assert_eq!(
        message,
        "trace as `azure`: 2 of 3 rows are faulty, more than half; no instant since 1970: 2 (line 2: TIMESTAMP, line 3: TIMESTAMP)"
    );
    let column = |times| {
        format!(
            "trace as `vidur`: the first line names the column `num_decode_tokens` {times} times and must name it once"
        )
    };
    assert_eq!(refused("num_prefill_tokens\n1\n", Some(Format::Vidur)), column(0));
    assert_eq!(refused("num_prefill_tokens,num_decode_tokens,Num Decode Tokens\n1,2,3\n", None), column(2));
}

#[test]
fn two_formats_in_one_file_are_refused_by_name() {
    let text = "TIMESTAMP,ContextTokens,GeneratedTokens,Request tokens,Response tokens\n2023-11-16 18:15:46,1,1,2,2\n";
    let error = read("trace", text.as_bytes(), None, &tokens::estimate).unwrap_err();
    assert_eq!(
        error,
        Refused::Ambiguous { name: "trace".to_owned(), candidates: vec![Format::Azure, Format::Burstgpt] }
    );
    assert_eq!(error.to_string(), "trace fits more than one format: `azure`, `burstgpt`");
    assert!(error.hints()[0].contains("--format"));
    assert_eq!(read("trace", text.as_bytes(), Some(Format::Azure), &tokens::estimate).unwrap().format, Format::Azure);
    let both = r#"{"timestamp": 0, "input_length": 5, "output_length": 6, "custom_id": "a", "body": {}}"#;
    assert_eq!(refused(both, None), "trace fits more than one format: `mooncake`, `openai-batch`");
}

#[test]
fn lines_of_faults_are_those_of_the_file() {
    let text = "\u{feff}Timestamp,Request tokens,Response tokens\r\n\r\n1,5,6\r\n2,x,6\r\n\r\n\r\n3,5\r\n4,5,6\r\n5,5,6\r\n6,5,99999999\r\n7,5,6\r\n";
    let found = reading(text);
    assert_eq!(
        found.faults.sentences(Effect::Faulty),
        [
            "more or fewer fields than the header: 1 (line 7)",
            "a length is no whole number up to 10000000: 2 (line 4: Request tokens, line 10: Response tokens)"
        ]
    );
    let quote = "Timestamp,Request tokens,Response tokens\n1,5,6\n2,5,6\n3,5,6\n4,5,6\n5,\"5,6\n6,5,6\n7,5,6\n";
    assert_eq!(reading(quote).faults.sentences(Effect::Faulty), ["inside an open quote: 3 (line 6)"]);
    let json = "{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 6}\n\n{\"timestamp\": 1\n\
                {\"timestamp\": 1, \"input_length\": 5, \"output_length\": 6}\n";
    assert_eq!(reading(json).faults.sentences(Effect::Faulty), ["not JSON: 1 (line 3)"]);
}

#[test]
fn equal_instants_keep_the_order_of_the_file_and_parents_behind_are_unknown() {
    let row = |chat: u32, parent: i32, at: u32, input: u32| {
        format!(
            r#"{{"chat_id": {chat}, "parent_chat_id": {parent}, "timestamp": {at}, "input_length": {input}, "output_length": 1}}"#
        )
    };
    let rows = [row(1, 2, 5, 11), row(2, 1, 5, 12), row(3, -1, 4, 13), row(4, 3, 5, 14)];
    let found = reading(&rows.join("\n"));
    assert_eq!((found.faults.rows(Kind::OutOfOrder), found.faults.rows(Kind::UnknownParent)), (1, 1));
    let requests = of(found);
    let inputs: Vec<u32> = requests.rows.iter().map(|row: &Request| row.prompt_tokens).collect();
    assert_eq!(inputs, [13, 11, 12, 14]);
    let sessions: Vec<_> = requests.rows.iter().map(|row| (row.session, row.parent)).collect();
    assert_eq!(sessions, [(Some(0), None), (Some(1), None), (Some(1), Some(1)), (Some(0), Some(0))]);
}
