//! A 64-bit digest of everything that happened, the same on every machine.
//!
//! **Invariant:** sizes and discriminants are folded as 64-bit values in little-endian order, so that 32-bit wasm and
//! 64-bit native agree.

use std::hash::{Hash, Hasher};

/// FNV-1a over what is hashed into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    value: u64,
    words: u64,
}

impl Default for Digest {
    fn default() -> Self {
        Digest { value: 0xcbf2_9ce4_8422_2325, words: 0 }
    }
}

impl Digest {
    /// Takes in a value, and says of how many bytes it was, at eight for each number.
    pub fn fold(&mut self, value: &impl Hash) -> usize {
        let before = self.words;
        value.hash(self);
        (self.words - before) as usize * size_of::<u64>()
    }

    pub fn value(self) -> u64 {
        self.value
    }

    fn word(&mut self, word: u64) {
        // One multiplication a word: FNV's prime, then the high half folded down.
        let mixed = (self.value ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        self.value = mixed ^ (mixed >> 32);
        self.words += 1;
    }
}

impl Hasher for Digest {
    fn finish(&self) -> u64 {
        self.value
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
        self.word(bytes.len() as u64);
    }

    fn write_u8(&mut self, value: u8) {
        self.word(value.into());
    }

    fn write_u16(&mut self, value: u16) {
        self.word(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.word(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        self.word(value);
    }

    fn write_u128(&mut self, value: u128) {
        self.word(value as u64);
        self.word((value >> 64) as u64);
    }

    fn write_usize(&mut self, value: usize) {
        self.word(value as u64);
    }

    fn write_i8(&mut self, value: i8) {
        self.word(i64::from(value) as u64);
    }

    fn write_i16(&mut self, value: i16) {
        self.word(i64::from(value) as u64);
    }

    fn write_i32(&mut self, value: i32) {
        self.word(i64::from(value) as u64);
    }

    fn write_i64(&mut self, value: i64) {
        self.word(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.word(value as i64 as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(value: impl Hash) -> u64 {
        let mut digest = Digest::default();
        digest.fold(&value);
        digest.value()
    }

    #[test]
    fn the_digest_tells_neighbours_apart() {
        assert_ne!(digest((1u32, 2u32)), digest((2u32, 1u32)));
        assert_ne!(digest("ab"), digest("abc"));
        assert_ne!(digest(vec!["a", "b"]), digest(vec!["ab"]));
    }

    #[test]
    fn it_says_how_much_it_took_in() {
        let mut digest = Digest::default();
        assert_eq!(digest.fold(&(1u8, 2i64)), 16);
        assert!((80..=96).contains(&digest.fold(&vec![7i64; 10])));
        assert!(digest.fold(&"x".repeat(10_000)) >= 10_000);
    }

    #[test]
    fn sizes_count_as_64_bits_on_every_machine() {
        assert_eq!(digest(7usize), digest(7u64));
        assert_eq!(digest(-7isize), digest(-7i64));
    }
}
