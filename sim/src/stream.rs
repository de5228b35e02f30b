//! Randomness: one seed feeds independent streams, one per purpose, so that one more draw in one of them moves nothing
//! in the others.

/// A stream of random numbers (xoshiro256**, seeded by splitmix64 of the seed and the purpose).
#[derive(Clone, Debug)]
pub struct Stream {
    state: [u64; 4],
}

/// 64-bit FNV-1a: names of streams, identifiers of fake etcd members, rolling hashes. Not for security.
pub fn fnv(parts: &[&[u8]]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        for byte in part.iter().chain(std::iter::once(&0xff)) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Stream {
    /// The stream of a purpose under a seed.
    pub fn new(seed: u64, purpose: &str) -> Self {
        let mut mixer = seed ^ fnv(&[purpose.as_bytes()]);
        Self { state: std::array::from_fn(|_| splitmix(&mut mixer)) }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let result = self.state[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = self.state[1] << 17;
        self.state[2] ^= self.state[0];
        self.state[3] ^= self.state[1];
        self.state[1] ^= self.state[2];
        self.state[0] ^= self.state[3];
        self.state[2] ^= shifted;
        self.state[3] = self.state[3].rotate_left(45);
        result
    }

    /// A number in `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        let span = high.saturating_sub(low).saturating_add(1);
        low + self.bits() % span.max(1)
    }

    /// True in so many of a thousand draws.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.bits() % 1000 < per_mille
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        if choices.is_empty() { None } else { choices.get((self.bits() % choices.len() as u64) as usize) }
    }

    /// A latency: mostly near `low`, now and then (one in twenty) up to `high`.
    pub fn latency(&mut self, low: u64, high: u64) -> u64 {
        if self.chance(50) { self.between(low, high) } else { self.between(low, low + (high - low) / 8) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_one_seed_are_independent_and_repeatable() {
        let (mut a, mut again, mut b) = (Stream::new(7, "a"), Stream::new(7, "a"), Stream::new(7, "b"));
        let first: Vec<u64> = (0..4).map(|_| a.bits()).collect();
        assert_eq!(first, (0..4).map(|_| again.bits()).collect::<Vec<_>>());
        assert_ne!(first, (0..4).map(|_| b.bits()).collect::<Vec<_>>());
    }

    #[test]
    fn bounds_are_inclusive() {
        let mut stream = Stream::new(1, "bounds");
        let drawn: std::collections::BTreeSet<u64> = (0..200).map(|_| stream.between(3, 5)).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [3, 4, 5]);
    }
}
