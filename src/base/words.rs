//! Numbers with their nouns, as people read them.

use std::fmt::Display;

/// A count with its noun: `1 run`, `2 runs`.
pub fn count<N: Copy + Display + PartialEq + From<u8>>(number: N, one: &str) -> String {
    let plural = if number == N::from(1) { "" } else { "s" };
    format!("{number} {one}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        assert_eq!([0_usize, 1, 2].map(|n| count(n, "run")), ["0 runs", "1 run", "2 runs"]);
        assert_eq!(count(1_u64, "session"), "1 session");
    }
}
