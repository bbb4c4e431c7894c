//! SHA-256 digests, written as `sha256:<hex>` wherever a person or another tool checks them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The SHA-256 of some bytes. Its text form is `sha256:` and 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::default();
        hasher.update(bytes);
        hasher.finish()
    }

    /// The first twelve hexadecimal digits: enough to name a run to a person.
    pub fn short(&self) -> String {
        hex(&self.0[..6])
    }
}

/// The first 64 bits of a [`Digest`], where many are stored and only equality is asked: whether two answers are the
/// same text. Two different ones of ten million agree by chance once in 370,000 times. Its text form is 16 lower-case
/// hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ShortDigest(pub u64);

/// The text is not 16 lower-case hexadecimal digits.
#[derive(Debug, thiserror::Error)]
#[error("not a short digest: expected 16 lower-case hexadecimal digits")]
pub struct NotAShortDigest;

impl From<Digest> for ShortDigest {
    fn from(digest: Digest) -> Self {
        Self(digest.0.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes)))
    }
}

impl From<ShortDigest> for String {
    fn from(digest: ShortDigest) -> Self {
        format!("{:016x}", digest.0)
    }
}

impl TryFrom<String> for ShortDigest {
    type Error = NotAShortDigest;

    fn try_from(text: String) -> Result<Self, NotAShortDigest> {
        let digits = text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let number = digits.then(|| u64::from_str_radix(&text, 16).ok()).flatten();
        number.map(Self).ok_or(NotAShortDigest)
    }
}

/// Builds a [`Digest`] piece by piece.
#[derive(Clone, Default)]
pub struct Hasher(Sha256);

impl Hasher {
    /// Adds bytes as they are.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Adds one field with its length in front, so that two fields cannot run into each other.
    pub fn field(&mut self, bytes: &[u8]) {
        self.0.update(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_le_bytes());
        self.0.update(bytes);
    }

    /// The digest of all that was added.
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(nibble.into(), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", hex(&self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not `sha256:` with 64 lower-case hexadecimal digits.
#[derive(Debug, thiserror::Error)]
#[error("not a digest: expected `sha256:` and 64 lower-case hexadecimal digits")]
pub struct NotADigest;

impl FromStr for Digest {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, NotADigest> {
        let digits = text.strip_prefix("sha256:").ok_or(NotADigest)?.as_bytes();
        let mut out = [0; 32];
        if digits.len() != 64 {
            return Err(NotADigest);
        }
        let nibble = |digit: u8| match digit {
            b'0'..=b'9' => Ok(digit - b'0'),
            b'a'..=b'f' => Ok(digit - b'a' + 10),
            _ => Err(NotADigest),
        };
        for (byte, pair) in out.iter_mut().zip(digits.as_chunks::<2>().0) {
            *byte = nibble(pair[0])? * 16 + nibble(pair[1])?;
        }
        Ok(Self(out))
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl TryFrom<String> for Digest {
    type Error = NotADigest;

    fn try_from(text: String) -> Result<Self, NotADigest> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_form_is_the_standard_one_and_reads_back() {
        let digest = Digest::of(b"abc");
        let text = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest.to_string(), text);
        assert_eq!(text.parse::<Digest>().unwrap(), digest);
        for bad in ["", "sha256:", "ba7816", "sha256:BA7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"]
        {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_short_digest_is_the_start_of_the_long_one() {
        let short = ShortDigest::from(Digest::of(b"abc"));
        assert_eq!(String::from(short), "ba7816bf8f01cfea");
        assert_eq!(ShortDigest::try_from("ba7816bf8f01cfea".to_owned()).unwrap(), short);
        assert_eq!(ShortDigest::try_from(String::from(ShortDigest(7))).unwrap(), ShortDigest(7));
        for bad in ["", "7", "BA7816bf8f01cfea", "+a7816bf8f01cfea", "ba7816bf8f01cfea0"] {
            assert!(ShortDigest::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }
}
