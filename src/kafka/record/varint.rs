//! Variable-length integers: zig-zag, seven bits a byte, lowest first (Kafka's `ByteUtils`).
//!
//! **Invariant:** [`size`] is the number of bytes that [`write`] writes.

use bytes::BufMut;

/// Longest form of a 32-bit value.
const MAX_BYTES_I32: u32 = 5;
/// Longest form of a 64-bit value.
const MAX_BYTES_I64: u32 = 10;

fn zig_zag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Bytes that `value` takes.
pub fn size(value: i64) -> usize {
    let bits = u64::BITS - zig_zag(value).leading_zeros();
    bits.div_ceil(7).max(1) as usize
}

/// A 32-bit value takes the same bytes as the 64-bit one.
pub fn write(value: i64, into: &mut impl BufMut) {
    let mut rest = zig_zag(value);
    while rest >= 0x80 {
        into.put_u8(rest as u8 | 0x80);
        rest >>= 7;
    }
    into.put_u8(rest as u8);
}

fn read(from: &mut &[u8], max_bytes: u32) -> Option<u64> {
    let mut raw = 0;
    for index in 0..max_bytes {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        raw |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Some(raw);
        }
    }
    None
}

/// `None`: the bytes end too early or the value is too long.
pub fn read_i32(from: &mut &[u8]) -> Option<i32> {
    let raw = read(from, MAX_BYTES_I32)? as u32;
    Some((raw >> 1) as i32 ^ -((raw & 1) as i32))
}

/// `None`: the bytes end too early or the value is too long.
pub fn read_i64(from: &mut &[u8]) -> Option<i64> {
    let raw = read(from, MAX_BYTES_I64)?;
    Some((raw >> 1) as i64 ^ -((raw & 1) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: i64, bytes: &[u8]) {
        let mut written = Vec::new();
        write(value, &mut written);
        assert_eq!(written, bytes, "{value}");
        assert_eq!(size(value), bytes.len(), "{value}");
        assert_eq!(read_i64(&mut &written[..]), Some(value));
        if let Ok(value) = i32::try_from(value) {
            assert_eq!(read_i32(&mut &written[..]), Some(value));
        }
    }

    #[test]
    fn small_values_of_either_sign_take_one_byte() {
        check(0, &[0]);
        check(-1, &[1]);
        check(63, &[0x7e]);
        check(-64, &[0x7f]);
        check(64, &[0x80, 0x01]);
        check(-65, &[0x81, 0x01]);
    }

    #[test]
    fn extremes_take_five_and_ten_bytes() {
        check(i64::from(i32::MAX), &[0xfe, 0xff, 0xff, 0xff, 0x0f]);
        check(i64::from(i32::MIN), &[0xff, 0xff, 0xff, 0xff, 0x0f]);
        check(i64::MAX, &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
        check(i64::MIN, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
    }

    #[test]
    fn a_value_that_is_cut_off_or_too_long_is_not_read() {
        assert_eq!(read_i32(&mut &[][..]), None);
        assert_eq!(read_i32(&mut &[0x80][..]), None);
        assert_eq!(read_i32(&mut &[0x80, 0x80, 0x80, 0x80, 0x80, 0x01][..]), None);
        assert_eq!(read_i64(&mut &[0xff; 11][..]), None);
    }
}
