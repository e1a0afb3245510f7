//! The one source of chance in a simulation.

/// SplitMix64: small, fast and the same on every host (public domain algorithm by Sebastiano Vigna).
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// A generator whose whole sequence follows from `seed`.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number of `0..=max`.
    pub fn up_to(&mut self, max: u64) -> u64 {
        let wide = u128::from(self.next_u64()) * (u128::from(max) + 1);
        (wide >> 64) as u64
    }

    /// True with `probability` (below 0 is never, above 1 is always). Draws a number only if the
    /// answer is open, so that a fault which is off does not change the sequence.
    pub fn chance(&mut self, probability: f64) -> bool {
        if probability.is_nan() || probability <= 0.0 {
            return false;
        }
        if probability >= 1.0 {
            return true;
        }
        let unit = (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        unit < probability
    }

    /// Fills `data` with random bytes.
    pub fn fill(&mut self, data: &mut [u8]) {
        for chunk in data.chunks_mut(8) {
            let bytes = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_published_sequence_for_seed_1234567() {
        let mut rng = Rng::new(1_234_567);
        assert_eq!(rng.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(rng.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn bounds_and_probabilities_hold() {
        let mut rng = Rng::new(1);
        assert!((0..1000).all(|_| rng.up_to(9) <= 9));
        assert_eq!(rng.up_to(0), 0);
        let hits = (0..10_000).filter(|_| rng.chance(0.25)).count();
        assert!((2_300..2_700).contains(&hits), "{hits}");
        assert!(!rng.chance(0.0) && rng.chance(1.0) && !rng.chance(f64::NAN));
    }

    #[test]
    fn a_certain_answer_draws_nothing() {
        let (mut a, mut b) = (Rng::new(5), Rng::new(5));
        a.chance(0.0);
        a.chance(1.0);
        assert_eq!(a.next_u64(), b.next_u64());
    }
}
