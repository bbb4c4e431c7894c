//! A message of a conversation: what a plan says, and an interface carries.

/// Who says something in a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// Whoever runs the application.
    System,
    /// The user.
    User,
    /// The model, in an answer.
    Assistant,
    /// The model, when it calls a tool.
    Call,
    /// The tool that was called.
    Tool,
}

impl Speaker {
    /// As it is shown.
    pub const fn id(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Call => "call",
            Self::Tool => "tool",
        }
    }
}

/// A message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Who says it.
    pub by: Speaker,
    /// What.
    pub text: String,
}
