//! A value that must never be printed.

use std::fmt;

/// An API key. Its debug form is `***`, it has no display form and no serialised form.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a key; white space around it (a trailing newline of a file) is dropped.
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// A text that somebody else wrote, without the key: a server or a command may repeat what it was given.
    pub fn hide_in(&self, text: &str) -> String {
        if self.0.is_empty() { text.to_owned() } else { text.replace(&self.0, "***") }
    }

    /// The key itself, for the one header that carries it.
    pub fn reveal(&self) -> &str {
        &self.0
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
        assert_eq!(secret.hide_in("bad key sk-123, sk-123"), "bad key ***, ***");
        assert_eq!(Secret::new("").hide_in("as it is"), "as it is");
    }
}
