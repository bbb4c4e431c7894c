//! A value that must never be printed.

use std::fmt;

use crate::base::mask::Forms;

/// An API key. Its debug form is `***`, it has no display form and no serialised form.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    key: String,
    forms: Forms,
}

impl Secret {
    /// Wraps a key; white space around it (a trailing newline of a file) is dropped.
    pub fn new(text: &str) -> Self {
        let key = text.trim().to_owned();
        Self { forms: Forms::of(&key), key }
    }

    /// A text that somebody else wrote, without the key: a server or a command may repeat what it was given, as it
    /// is or in other case, percent-encoded, with JSON escapes, as hex, or as a part of what is in base64.
    pub fn hide_in(&self, text: &str) -> String {
        self.forms.hide_in(text)
    }

    /// The key itself, for the one header that carries it.
    pub fn reveal(&self) -> &str {
        &self.key
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_print() {
        let secret = Secret::new("sk-123\n");
        assert_eq!(format!("{secret:?} {:?}", Some(&secret)), "*** Some(***)");
        assert_eq!(secret.reveal(), "sk-123");
        assert_eq!(secret.hide_in("bad key sk-123, SK-123"), "bad key ***, ***");
    }
}
