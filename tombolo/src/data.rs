//! The bytes that are moved, and whether they arrived.

/// Where the bytes of a transfer come from. A stream is an endless row of bytes; each transfer of a
/// pattern has its own, so that no transfer can pass for another.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    /// Generated from a seed: any stream, any place in it.
    Pattern(u64),
    /// Given bytes; the stream's number does not matter.
    Bytes(&'a [u8]),
}

/// Bytes that are not what they should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// How many.
    pub count: u64,
    /// Where in the buffer the first one is.
    pub first: Option<u64>,
}

impl Differences {
    /// Adds those of a buffer that begins at `at`.
    pub fn add(&mut self, other: Differences, at: u64) {
        self.count += other.count;
        self.first = self.first.or(other.first.map(|first| first + at));
    }

    fn note(&mut self, at: usize, is: &[u8], should: &[u8]) {
        for (index, _) in is.iter().zip(should).enumerate().filter(|(_, (is, should))| is != should) {
            self.count += 1;
            self.first = self.first.or(Some((at + index) as u64));
        }
    }
}

impl Data<'_> {
    /// Writes the bytes of `stream` from place `at` on into `buffer`.
    pub fn fill(&self, stream: u64, at: u64, buffer: &mut [u8]) {
        match self {
            Data::Pattern(seed) => Pattern::new(*seed, stream).fill(at, buffer),
            Data::Bytes(bytes) => {
                let from = bytes.get(at as usize..).unwrap_or_default();
                let len = from.len().min(buffer.len());
                buffer[..len].copy_from_slice(&from[..len]);
            }
        }
    }

    /// Compares `buffer` with the bytes of `stream` from place `at` on.
    pub fn check(&self, stream: u64, at: u64, buffer: &[u8]) -> Differences {
        match self {
            Data::Pattern(seed) => Pattern::new(*seed, stream).check(at, buffer),
            Data::Bytes(bytes) => {
                let mut differences = Differences::default();
                let expected = bytes.get(at as usize..).unwrap_or_default();
                if expected.get(..buffer.len()) != Some(buffer) {
                    differences.note(0, buffer, expected);
                }
                differences
            }
        }
    }
}

/// An endless row of bytes that differ from place to place, made eight at a time.
#[derive(Clone, Copy, Debug)]
struct Pattern {
    key: u64,
}

const WORD: usize = 8;

impl Pattern {
    fn new(seed: u64, stream: u64) -> Self {
        Self { key: mix(mix(seed).wrapping_add(stream)) }
    }

    fn word(self, index: u64) -> [u8; WORD] {
        mix(self.key.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15))).to_le_bytes()
    }

    /// `count` bytes at `at`, which lie in one word.
    fn part(self, at: u64, count: usize) -> impl Iterator<Item = u8> {
        self.word(at / WORD as u64).into_iter().skip((at % WORD as u64) as usize).take(count)
    }

    fn fill(self, at: u64, buffer: &mut [u8]) {
        let (head, index) = start(at, buffer.len());
        let (first, rest) = buffer.split_at_mut(head);
        first.iter_mut().zip(self.part(at, head)).for_each(|(byte, value)| *byte = value);
        let mut words = rest.chunks_exact_mut(WORD);
        let mut next = index;
        for word in &mut words {
            word.copy_from_slice(&self.word(next));
            next += 1;
        }
        let tail = words.into_remainder();
        let len = tail.len();
        tail.copy_from_slice(&self.word(next)[..len]);
    }

    fn check(self, at: u64, buffer: &[u8]) -> Differences {
        let mut differences = Differences::default();
        let (head, index) = start(at, buffer.len());
        let (first, rest) = buffer.split_at(head);
        let expected: Vec<u8> = self.part(at, head).collect();
        differences.note(0, first, &expected);
        let words = rest.chunks_exact(WORD);
        let tail = (words.remainder(), index + words.len() as u64);
        for (number, word) in words.enumerate() {
            let expected = self.word(index + number as u64);
            // Arrays of a known size are compared at once.
            if word.first_chunk() != Some(&expected) {
                differences.note(head + number * WORD, word, &expected);
            }
        }
        differences.note(buffer.len() - tail.0.len(), tail.0, &self.word(tail.1));
        differences
    }
}

/// How many of `len` bytes at `at` come before the next whole word, and that word's number.
fn start(at: u64, len: usize) -> (usize, u64) {
    let head = ((at.wrapping_neg() % WORD as u64) as usize).min(len);
    (head, at.div_ceil(WORD as u64))
}

/// Spreads every bit of `x` over the result.
pub fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ x >> 32
}

/// Cuts `total` bytes into `pieces` of uneven and mostly odd lengths, none of them 0.
///
/// `pieces` is at least 1 and at most `total`.
pub fn cut(total: usize, pieces: usize, seed: u64) -> Vec<usize> {
    let mut left = total;
    let mut lengths = Vec::with_capacity(pieces);
    for index in 0..pieces {
        let rest = pieces - index - 1;
        let average = left / (rest + 1);
        // Half to one and a half of the average, and enough left for the others.
        let chance = mix(seed.wrapping_add(mix(index as u64 + 1))) as usize;
        let odd = (average / 2 + chance % (average + 1)) | 1;
        let length = if rest == 0 { left } else { odd.clamp(1, left - rest) };
        lengths.push(length);
        left -= length;
    }
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_the_same_however_it_is_cut() {
        let data = Data::Pattern(7);
        let mut whole = vec![0; 1000];
        data.fill(3, 0, &mut whole);
        for (at, len) in [(0, 1000), (1, 1), (3, 4), (5, 3), (7, 990), (8, 8), (999, 1), (13, 0)] {
            let mut part = vec![0; len];
            data.fill(3, at as u64, &mut part);
            assert_eq!(part, whole[at..at + len], "{at} {len}");
            assert_eq!(data.check(3, at as u64, &part), Differences::default());
        }
    }

    #[test]
    fn every_wrong_byte_is_counted_and_the_first_is_named() {
        let mut bytes = vec![0; 100];
        Data::Pattern(1).fill(9, 3, &mut bytes);
        let original = bytes.clone();
        for wrong in [2, 50, 51, 99] {
            bytes[wrong] ^= 0x10;
        }
        let expected = Differences { count: 4, first: Some(2) };
        assert_eq!(Data::Pattern(1).check(9, 3, &bytes), expected);
        assert_eq!(Data::Bytes(&original).check(0, 0, &bytes), expected);
    }

    #[test]
    fn seeds_and_streams_differ() {
        let mut bytes = vec![0; 64];
        Data::Pattern(1).fill(1, 0, &mut bytes);
        for (seed, stream) in [(1, 2), (2, 1), (1, 0), (0, 1)] {
            assert!(Data::Pattern(seed).check(stream, 0, &bytes).count > 50, "{seed} {stream}");
        }
    }

    #[test]
    fn pieces_are_uneven_and_add_up() {
        for (total, pieces) in [(1, 1), (5, 5), (6, 5), (4096, 7), (8 << 20, 64), (257, 256)] {
            for seed in 0..20 {
                let lengths = cut(total, pieces, seed);
                assert_eq!(lengths.len(), pieces);
                assert_eq!(lengths.iter().sum::<usize>(), total);
                assert!(lengths.iter().all(|length| *length > 0), "{lengths:?}");
            }
        }
        let lengths = cut(8 << 20, 64, 1);
        assert!(lengths.iter().filter(|length| **length % 2 == 1).count() >= 62);
        assert!(lengths.iter().max() > lengths.iter().min());
    }
}
