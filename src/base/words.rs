//! Numbers with their nouns, as people read them.

use std::fmt::Display;

/// Numbers closer than this many decimals are the same to people.
const MOST_DECIMALS: usize = 7;

/// A count with its noun: `1 run`, `2 runs`.
pub fn count<N: Copy + Display + PartialEq + From<u8>>(number: N, one: &str) -> String {
    let plural = if number == N::from(1) { "" } else { "s" };
    format!("{number} {one}{plural}")
}

/// Two numbers that are told apart: with as many decimals as make different ones look different, and at least so many.
pub fn apart([one, other]: [f64; 2], decimals: usize) -> [String; 2] {
    let written = |decimals: usize| [one, other].map(|number| format!("{number:.decimals$}"));
    let differ = |[one, other]: &[String; 2]| one != other;
    (decimals..MOST_DECIMALS).map(written).find(differ).unwrap_or_else(|| written(decimals))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_numbers_look_different() {
        let shown = |pair, decimals| apart(pair, decimals).join(" ");
        assert_eq!(shown([3.12, 3.1], 1), "3.12 3.10");
        assert_eq!(shown([12.04, 1.0], 1), "12.0 1.0");
        assert_eq!(shown([10.0004, 10.0], 0), "10.0004 10.0000");
        assert_eq!(shown([2.0, 2.0], 1), "2.0 2.0");
        assert_eq!(shown([f64::NAN, 2.0], 1), "NaN 2.0");
        assert_eq!(shown([1.0 + 1e-12, 1.0], 1), "1.0 1.0");
    }

    #[test]
    fn one_is_not_many() {
        assert_eq!([0_usize, 1, 2].map(|n| count(n, "run")), ["0 runs", "1 run", "2 runs"]);
        assert_eq!(count(1_u64, "session"), "1 session");
    }
}
