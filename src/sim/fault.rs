//! What a server can do wrong while it answers 200: named, so that scenarios and tests ask for it.

use crate::base::rng::Stream;

/// A wrong answer to one request. The stream is right up to half of its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection breaks.
    CutStream,
    /// An error object arrives as an event, then the stream ends in good form.
    ErrorInStream,
    /// Content never ends.
    EndlessBody,
    /// Nothing more arrives and the connection stays open.
    StalledStream,
    /// The usage that was asked for is missing.
    NoUsage,
    /// A well-formed answer without a single token.
    ZeroTokens,
}

impl Fault {
    /// Every fault.
    pub const ALL: &'static [Self] = &[
        Self::CutStream,
        Self::ErrorInStream,
        Self::EndlessBody,
        Self::StalledStream,
        Self::NoUsage,
        Self::ZeroTokens,
    ];

    /// The name by which users ask for it.
    pub const fn id(self) -> &'static str {
        match self {
            Self::CutStream => "cut-stream",
            Self::ErrorInStream => "error-in-stream",
            Self::EndlessBody => "endless-body",
            Self::StalledStream => "stalled-stream",
            Self::NoUsage => "no-usage",
            Self::ZeroTokens => "zero-tokens",
        }
    }

    /// The fault with this name.
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|fault| fault.id() == id)
    }
}

/// A fault and the share of requests that meet it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// What goes wrong.
    pub fault: Fault,
    /// Probability per request, 0 to 1. Shares of one deployment add up; beyond 1 the later ones are cut off.
    pub share: f64,
}

/// Deals faults to requests in their order of arrival.
pub(crate) struct Dealer {
    shares: Vec<Share>,
    draws: Stream,
}

impl Dealer {
    pub(crate) fn new(shares: &[Share], seed: u64) -> Self {
        Self { shares: shares.to_vec(), draws: Stream::named(seed, "sim/faults") }
    }

    /// The fault of the next request. Every request costs one draw, whatever the shares are.
    pub(crate) fn deal(&mut self) -> Option<Fault> {
        let mut left = self.draws.uniform();
        self.shares.iter().find_map(|entry| {
            let hit = left < entry.share;
            left -= entry.share;
            hit.then_some(entry.fault)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_dealt_by_share_and_found_by_name() {
        let shares = [Share { fault: Fault::CutStream, share: 0.1 }, Share { fault: Fault::NoUsage, share: 0.3 }];
        let mut dealer = Dealer::new(&shares, 5);
        let dealt: Vec<_> = (0..10_000).map(|_| dealer.deal()).collect();
        let count = |fault| dealt.iter().filter(|dealt| **dealt == fault).count();
        assert!((900..1_100).contains(&count(Some(Fault::CutStream))));
        assert!((2_850..3_150).contains(&count(Some(Fault::NoUsage))));
        assert!((5_850..6_150).contains(&count(None)));
        assert!(Fault::ALL.iter().all(|fault| Fault::from_id(fault.id()) == Some(*fault)));
    }
}
