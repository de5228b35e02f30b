//! Uids and name suffixes from a seed: random to look at, the same in every run.

/// A SplitMix64 stream.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    state: u64,
}

/// The letters of Kubernetes' generated names: no vowels, so that no words appear.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

impl Names {
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A version 4 UUID.
    pub fn uid(&mut self) -> String {
        let (high, low) = (self.next(), self.next());
        let (a, b, c) = (high >> 32, (high >> 16) & 0xffff, high & 0x0fff);
        let (d, e) = (0x8000 | ((low >> 48) & 0x3fff), low & 0xffff_ffff_ffff);
        format!("{a:08x}-{b:04x}-4{c:03x}-{d:04x}-{e:012x}")
    }

    /// Five characters for `generateName`.
    pub fn suffix(&mut self) -> String {
        let mut random = self.next();
        let mut out = String::with_capacity(5);
        for _ in 0..5 {
            out.push(char::from(ALPHABET[(random % 27) as usize]));
            random /= 27;
        }
        out
    }
}
