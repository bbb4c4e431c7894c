//! Which request of a cell's time line it is: the phase, and the place in it. It is the request's identity on its way
//! through the transport, so that whatever stands in between knows it too.

/// Places of a phase that an identity can tell apart; no run sends as many.
const PLACE_BITS: u32 = 32;

/// A request of a time line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The phase, as an index into the time line.
    pub(super) phase: usize,
    /// The place in the phase: warm-up, measured, fillers.
    pub(super) place: usize,
}

impl Place {
    /// The identity of the request in this place.
    pub(super) fn id(self) -> u64 {
        let number = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        (number(self.phase) << PLACE_BITS) | number(self.place)
    }

    /// The place of the request with this identity.
    pub(super) fn of(id: u64) -> Self {
        let index = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        Self { phase: index(id >> PLACE_BITS), place: index(id & ((1 << PLACE_BITS) - 1)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_a_place_and_back() {
        assert_eq!(Place { phase: 0, place: 7 }.id(), 7);
        for (phase, place) in [(0, 0), (0, 5_000_000), (1, 0), (4, 4_294_967_295)] {
            let one = Place { phase, place };
            assert_eq!(Place::of(one.id()), one);
        }
    }
}
