//! Usual causes of refused requests, as data.

/// One usual mistake: a status, words of the body (any of them; none for every body), and what to do.
struct Hint {
    statuses: &'static [u16],
    words: &'static [&'static str],
    advice: &'static str,
}

/// From the most to the least specific; the first that fits is given.
const HINTS: &[Hint] = &[
    Hint {
        statuses: &[401, 403],
        words: &[],
        advice: "API key missing or wrong: set the environment variable named by `api_key_env`",
    },
    Hint {
        statuses: &[404],
        words: &["model"],
        advice: "the server does not serve this model: set `model` to a name that its /v1/models lists",
    },
    Hint {
        statuses: &[404, 405, 501],
        words: &[],
        advice: "the server does not know this path: check the target's `url` (without the path of the interface) and its `api`",
    },
    Hint {
        statuses: &[400, 422],
        words: &["stream_options"],
        advice: "the server does not know `stream_options`: set `stream_options: null` in `extra_body`; tokens are then counted by chunks",
    },
    Hint {
        statuses: &[400, 422],
        words: &["max_completion_tokens"],
        advice: "the server takes `max_completion_tokens`: set it, and `max_tokens: null`, in `extra_body`",
    },
    Hint {
        statuses: &[400, 422],
        words: &["ignore_eos", "min_tokens"],
        advice: "the server cannot force the output length: take `ignore_eos` and `min_tokens` out of `extra_body`",
    },
    Hint {
        statuses: &[400, 422, 500],
        words: &["chat template", "chat_template"],
        advice: "the model has no chat template: set `api: completions`",
    },
    Hint {
        statuses: &[400, 413, 422, 500],
        words: &["context", "max_model_len", "too long", "too large"],
        advice: "prompt and output do not fit the model's context: shorten `prompt_tokens` or `output_tokens` of the cell",
    },
    Hint {
        statuses: &[400, 422],
        words: &["unrecognized", "unsupported", "extra inputs", "not permitted", "temperature", "seed"],
        advice: "the server refuses a field of the request: set it to null in `extra_body` to leave it out",
    },
    Hint {
        statuses: &[301, 302, 303, 307, 308],
        words: &[],
        advice: "redirects are not followed: set the target's `url` to the final address",
    },
    Hint {
        statuses: &[502, 504],
        words: &[],
        advice: "a proxy answered for the server: check that the deployment behind it is up, or measure it directly",
    },
];

/// Bytes of a body that are looked at.
const LOOKED_AT: usize = 4_096;

/// What to do about a response with this status and body, when its cause is a usual one.
pub fn hint(status: u16, body: &[u8]) -> Option<&'static str> {
    let head = body.get(..LOOKED_AT).unwrap_or(body);
    let text = String::from_utf8_lossy(head).to_lowercase();
    let fits = |hint: &&Hint| {
        hint.statuses.contains(&status) && (hint.words.is_empty() || hint.words.iter().any(|word| text.contains(word)))
    };
    HINTS.iter().find(fits).map(|hint| hint.advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_usual_mistake_gets_its_advice() {
        for (status, body, expected) in [
            (401, "", Some("api_key_env")),
            (404, r#"{"error":{"message":"The model `x` does not exist."}}"#, Some("/v1/models")),
            (404, r#"{"detail":"Not Found"}"#, Some("its `api`")),
            (405, "", Some("its `api`")),
            (400, "Unknown parameter: 'stream_options'", Some("`stream_options: null`")),
            (422, "extra inputs are not permitted: ignore_eos", Some("`ignore_eos`")),
            (400, "max_tokens is not supported, use max_completion_tokens", Some("`max_tokens: null`")),
            (400, "request (6031 tokens) exceeds the available context size", Some("`prompt_tokens`")),
            (400, "no chat template is defined", Some("`api: completions`")),
            (400, "seed must be below 10", Some("set it to null")),
            (400, "bad", None),
            (200, "model", None),
            (503, "", None),
        ] {
            let found = hint(status, body.as_bytes());
            assert_eq!(found.is_some(), expected.is_some(), "{status} {body}");
            assert!(found.unwrap_or_default().contains(expected.unwrap_or_default()), "{status} {body}");
        }
    }

    #[test]
    fn only_the_head_of_a_body_is_read() {
        let body = [vec![b' '; LOOKED_AT], b"model".to_vec()].concat();
        assert!(hint(404, &body).unwrap().contains("path"));
    }
}
