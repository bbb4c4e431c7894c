//! The key-value cache as a pool of equal blocks. No block is shared, also where the prefix cache knows its tokens.

use crate::sim::profile::Profile;

/// Free and used blocks. Blocks need no identity as long as none is shared.
pub(crate) struct Pool {
    block_tokens: u32,
    capacity: u32,
    free: u32,
    reserve: u32,
}

impl Pool {
    pub(crate) fn new(profile: &Profile) -> Self {
        // The whole blocks that fit; `div_ceil` of the complement is the floor of the quotient.
        let block_tokens = profile.block_tokens;
        let capacity = (profile.kv_capacity_tokens + 1).div_ceil(block_tokens).saturating_sub(1);
        Self { block_tokens, capacity, free: capacity, reserve: share_of(capacity, profile.watermark) }
    }

    /// Blocks that hold this many tokens.
    pub(crate) const fn blocks_for(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.block_tokens)
    }

    /// Whether a request of this length can ever run.
    pub(crate) const fn can_hold(&self, tokens: u32) -> bool {
        self.blocks_for(tokens) <= self.capacity
    }

    /// Whether a request of this length may start now. Alone, it need not respect the watermark.
    pub(crate) const fn admits(&self, tokens: u32, alone: bool) -> bool {
        let reserve = if alone { 0 } else { self.reserve };
        self.blocks_for(tokens).saturating_add(reserve) <= self.free
    }

    /// Grows a holding to this many tokens; false, and nothing changes, when blocks are missing.
    pub(crate) const fn grow(&mut self, held: &mut u32, tokens: u32) -> bool {
        let more = self.blocks_for(tokens).saturating_sub(*held);
        if more > self.free {
            return false;
        }
        self.free -= more;
        *held += more;
        true
    }

    /// Takes a holding back.
    pub(crate) const fn release(&mut self, held: &mut u32) {
        self.free += *held;
        *held = 0;
    }

    /// Blocks in use.
    pub(crate) const fn used(&self) -> u32 {
        self.capacity - self.free
    }

    /// All blocks.
    pub(crate) const fn capacity(&self) -> u32 {
        self.capacity
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of at most 0.9 of a u32")]
fn share_of(blocks: u32, share: f64) -> u32 {
    (f64::from(blocks) * share).ceil() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_counted_whole_and_come_back() {
        let profile = Profile { kv_capacity_tokens: 1_615, watermark: 0.05, ..Profile::h100_8b() };
        let mut pool = Pool::new(&profile);
        assert_eq!(pool.capacity(), 100);
        let mut held = 0;
        assert!(pool.grow(&mut held, 17) && held == 2 && pool.used() == 2);
        assert!(pool.grow(&mut held, 32) && held == 2);
        // 98 are free, 5 of them are the watermark's.
        assert!(pool.admits(93 * 16, false) && !pool.admits(93 * 16 + 1, false) && pool.admits(98 * 16, true));
        let mut other = 0;
        assert!(!pool.grow(&mut other, 99 * 16) && other == 0 && pool.used() == 2);
        pool.release(&mut held);
        assert_eq!((held, pool.used()), (0, 0));
        assert!(pool.can_hold(1_600) && !pool.can_hold(1_601));
    }
}
