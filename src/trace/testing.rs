//! A small trace of every format for tests, with a word of somebody in every place that takes text.

use crate::trace::{Format, Reading, read, tokens};

/// A trace of this format whose texts all hold `word`. Made for tests; every one has faults.
pub(crate) fn sample(format: Format, word: &str) -> String {
    match format {
        Format::Azure => format!(
            "TIMESTAMP,ContextTokens,GeneratedTokens,Note\r\n2023-11-16 18:15:46.6805900,374,44,{word}\r\n\
             2023-11-16 18:15:50.9951690,396,109,{word}\r\n2023-11-16 18:15:49.0000000,12,1,\r\n{word},1,2,3"
        ),
        Format::Mooncake => format!(
            "{{\"timestamp\": 0, \"input_length\": 1300, \"output_length\": 52, \"hash_ids\": [46, 47, 48], \"prompt\": \"{word}\"}}\n\
             {{\"timestamp\": 0, \"input_length\": 1030, \"output_length\": 26, \"hash_ids\": [46, 47, 57]}}\n\
             {{\"timestamp\": 3000, \"input_length\": 600, \"output_length\": 0, \"hash_ids\": [46, 12]}}\n\
             {{\"timestamp\": 3000, \"input_length\": 600, \"output_length\": 9, \"hash_ids\": [46]}}\n\
             {{\"timestamp\": \"{word}\"}}\n"
        ),
        Format::Burstgpt => format!(
            "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
             5,{word},1.5,ChatGPT,472,18,490,Conversation log\n45,,2,{word},1087,230,1317,API log\n\
             118,{word},2,GPT-4,417,276,693,{word}\n119,,1,GPT-4,10,0,10,API log\n120,,1,GPT-4,0,0,0,API log\n"
        ),
        Format::Bailian => format!(
            "{{\"chat_id\": 7, \"parent_chat_id\": -1, \"timestamp\": 61.114, \"input_length\": 30, \"output_length\": 5, \
             \"type\": \"text\", \"turn\": 1, \"hash_ids\": [5, 6]}}\n\
             {{\"chat_id\": 9, \"parent_chat_id\": 7, \"timestamp\": 63.5, \"input_length\": 40, \"output_length\": 6, \
             \"type\": \"{word}\", \"turn\": 2, \"hash_ids\": [5, 6, 9]}}\n\
             {{\"chat_id\": 11, \"parent_chat_id\": 99, \"timestamp\": 64, \"input_length\": 16, \"output_length\": 6, \
             \"type\": \"search\", \"turn\": 3, \"hash_ids\": [8]}}\n"
        ),
        Format::Servegen => {
            format!("0,0.5,2,Gamma,0.25,8\n600,0,0,,0,0\n1200,1.5,3,Weibull,0.5,0.25\n1800,1,1,{word},1,1\n")
        }
        Format::Vidur => format!(
            "arrived_at,num_prefill_tokens,num_decode_tokens,who\n0.0,374,44,{word}\n5.8926549999999995,91,16,{word}\n"
        ),
        Format::Splitwise => format!(
            "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size\n\
             0,2,{word},0.0,1,374,44\n1,2,0,4.5,2,396,109\n"
        ),
        Format::Sharegpt => format!(
            "[\n {{\"id\": \"{word}\", \"conversations\": [\n  {{\"from\": \"human\", \"value\": \"one {word}\"}},\n  \
             {{\"from\": \"gpt\", \"value\": \"{word} two three\"}},\n  {{\"from\": \"human\", \"value\": \"four\"}},\n  \
             {{\"from\": \"gpt\", \"value\": \"five {word}\"}},\n  {{\"from\": \"{word}\", \"value\": \"six\"}}]}},\n \
             {{\"conversations\": \"{word}\"}},\n {{\"conversations\": [{{\"from\": \"gpt\", \"value\": \"{word}\"}}]}}\n]\n"
        ),
        Format::OpenaiBatch => format!(
            "{{\"custom_id\": \"{word}\", \"method\": \"POST\", \"url\": \"/v1/chat/completions\", \"body\": {{\"model\": \"{word}\", \
             \"messages\": [{{\"role\": \"user\", \"content\": \"one {word}\"}}], \"max_tokens\": 100}}}}\n\
             {{\"custom_id\": \"b\", \"method\": \"POST\", \"url\": \"/v1/completions\", \"body\": {{\"prompt\": [1, 2, 3]}}}}\n\
             {{\"custom_id\": \"c\", \"method\": \"POST\", \"url\": \"/v1/embeddings\", \"body\": {{\"input\": \"{word}\"}}}}\n\
             {{\"custom_id\": \"d\", \"body\": \"{word}\"}}\n"
        ),
        Format::Otel => otel(word),
        Format::Servegate => format!(
            "{{\"servegate_trace\":1,\"source\":\"azure\",\"requests\":4,\"block_tokens\":512,\"lost\":{{\"not-json\":2}}}}\n\
             {{\"at_us\":0,\"prompt_tokens\":600,\"output_tokens\":5,\"session\":0,\"turn\":1,\"class\":\"chat\",\"blocks\":[0,1]}}\n\
             {{\"at_us\":9,\"prompt_tokens\":600,\"output_tokens\":5,\"session\":0,\"turn\":2,\"parent\":0,\"blocks\":[0,2]}}\n\
             {{\"at_us\":9,\"prompt_tokens\":1,\"output_tokens\":5,\"prompt\":\"{word}\"}}\n"
        ),
    }
}

/// Flat spans: an agent around two model calls, one of which failed, and a tool.
fn otel(word: &str) -> String {
    let span = |id: &str, parent: &str, at: &str, attributes: &str, status: u8| {
        format!(
            "{{\"trace_id\": \"{word}\", \"span_id\": \"{id}\", \"parent_span_id\": {parent}, \"name\": \"{word}\",\n\
             \"start_time\": \"{at}\", \"attributes\": {{{attributes}, \"note\": \"{word}\"}},\n\
             \"resource_attributes\": {{\"service.name\": \"{word}\"}}, \"status\": {{\"code\": {status}, \"message\": \"{word}\"}}}}"
        )
    };
    let chat = format!(
        "\"gen_ai.operation.name\": \"chat\", \"gen_ai.request.model\": \"{word}\", \"gen_ai.output.text\": \"{word} two\", \
         \"gen_ai.input.messages\": \"[{{\\\"role\\\": \\\"user\\\", \\\"content\\\": \\\"one {word} three\\\"}}]\""
    );
    let used =
        "\"gen_ai.operation.name\": \"chat\", \"gen_ai.usage.input_tokens\": 50, \"gen_ai.usage.output_tokens\": \"7\"";
    let agent = format!("\"gen_ai.operation.name\": \"invoke_agent\", \"gen_ai.conversation.id\": \"{word}\"");
    let spans = [
        span("a", "null", "2026-02-25T10:00:00.000000", &agent, 1),
        span("b", "\"a\"", "2026-02-25T10:00:01.500000", &chat, 1),
        span("c", "\"b\"", "2026-02-25T10:00:03.000000", used, 1),
        span("d", "\"a\"", "2026-02-25T10:00:04.000000", "\"gen_ai.operation.name\": \"chat\"", 2),
    ];
    format!("{{\"trace_id\": \"{word}\", \"spans\": [\n{}\n]}}\n", spans.join(",\n"))
}

/// Reads a text that must be readable.
#[track_caller]
pub(crate) fn reading(text: &str) -> Reading {
    read("trace", text.as_bytes(), None, &tokens::estimate).unwrap_or_else(|refused| panic!("{refused}\n{text}"))
}
