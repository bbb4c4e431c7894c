//! What a server says when it refuses or fails, in the forms that servers use.

use serde_json::Value;

use crate::wire::excerpt::{DETAIL, excerpt};

/// Longest error body that is read as JSON.
const MAX_ERROR: usize = 64 << 10;

/// What the server says in an error body or event; the text itself when it is not of a usual form.
pub(super) fn server_message(body: &[u8]) -> String {
    error_in(body).unwrap_or_else(|| lossy(body))
}

/// The message of an error in JSON, in the forms of the OpenAI APIs (a failed response holds its error), of `FastAPI`,
/// of SGLang's request dropped by the engine, and of older engines.
pub(super) fn error_in(body: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(body.get(..=MAX_ERROR).map_or(body, |_| &[])).ok()?;
    let error = value.get("error").or_else(|| value.pointer("/response/error")).filter(|error| !error.is_null());
    let message = match error {
        Some(error) => error.get("message").unwrap_or(error),
        None => value.get("message").or_else(|| value.get("detail"))?,
    };
    Some(excerpt(message.as_str().map_or_else(|| message.to_string(), str::to_owned).as_str(), DETAIL))
}

/// The beginning of bytes that should be text.
pub(super) fn lossy(body: &[u8]) -> String {
    excerpt(&String::from_utf8_lossy(body.get(..2 * DETAIL).unwrap_or(body)), DETAIL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_is_found_in_every_form() {
        for (body, message) in [
            (r#"{"error":{"message":"boom","code":500}}"#, "boom"),
            (r#"{"error":"boom","error_type":"generation"}"#, "boom"),
            (r#"{"type":"error","error":{"type":"overloaded_error","message":"boom"}}"#, "boom"),
            (
                r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"x","message":"boom"}}}"#,
                "boom",
            ),
            (r#"{"type":"error","code":"x","message":"boom","param":null}"#, "boom"),
            (r#"{"object":"error","message":"boom"}"#, "boom"),
            (r#"{"detail":"boom"}"#, "boom"),
            (r#"{"error":{"code":7}}"#, r#"{"code":7}"#),
            ("boom", "boom"),
            ("{\"x\":1}", "{\"x\":1}"),
        ] {
            assert_eq!(server_message(body.as_bytes()), message, "{body}");
        }
    }
}
