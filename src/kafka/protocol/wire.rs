//! Kafka's primitive encodings, for the records that live in internal topics and that kafka-protocol does not know.
//!
//! Mirrors `ByteBufferAccessor` and the generated message classes: fixed-width integers are big-endian; a string, a
//! byte string or an array starts with its length, as i16 or i32 in the old ("plain") form and as an unsigned varint
//! of length + 1 in the compact form of flexible versions, which end with tagged fields.
//!
//! **Invariant:** reading what a [`Writer`] wrote gives the same values and leaves nothing over; bytes that nobody
//! could have written are a [`WireError`] with their place, never a panic.

use bytes::{BufMut, Bytes, BytesMut};
use uuid::Uuid;

/// Bytes that are not what they should be, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {problem} at byte {at}")]
pub struct WireError {
    /// The record or structure that was being read.
    pub what: &'static str,
    /// Position in the bytes that were given to the [`Reader`].
    pub at: usize,
    pub problem: WireProblem,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireProblem {
    #[error("{wanted} bytes wanted, {left} left")]
    TooShort { wanted: usize, left: usize },
    #[error("{left} bytes left over")]
    LeftOver { left: usize },
    #[error("length {0} is impossible")]
    Length(i64),
    #[error("null where a value must be")]
    Null,
    #[error("a varint longer than five bytes")]
    Varint,
    #[error("a string that is not UTF-8")]
    Utf8,
    #[error("tag {0} out of order")]
    TagOrder(u32),
    #[error("version {0} is unknown")]
    Version(i16),
}

/// Writes values one after the other.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: BytesMut,
}

/// Lengths that a sandbox writes fit their field; one that does not is a fault of the caller.
fn fits<T: TryFrom<usize>>(length: usize) -> T {
    T::try_from(length).unwrap_or_else(|_| panic!("length {length} does not fit its field"))
}

impl Writer {
    pub fn new() -> Writer {
        Writer::default()
    }

    pub fn finish(self) -> Bytes {
        self.bytes.freeze()
    }

    pub fn bool(&mut self, value: bool) {
        self.bytes.put_u8(u8::from(value));
    }

    pub fn i8(&mut self, value: i8) {
        self.bytes.put_i8(value);
    }

    pub fn i16(&mut self, value: i16) {
        self.bytes.put_i16(value);
    }

    pub fn u16(&mut self, value: u16) {
        self.bytes.put_u16(value);
    }

    pub fn i32(&mut self, value: i32) {
        self.bytes.put_i32(value);
    }

    pub fn i64(&mut self, value: i64) {
        self.bytes.put_i64(value);
    }

    pub fn uuid(&mut self, value: Uuid) {
        self.bytes.put_slice(value.as_bytes());
    }

    pub fn unsigned_varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.bytes.put_u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.put_u8(value as u8);
    }

    pub fn string(&mut self, value: &str) {
        self.nullable_string(Some(value));
    }

    pub fn nullable_string(&mut self, value: Option<&str>) {
        self.i16(value.map_or(-1, |text| fits(text.len())));
        self.bytes.put_slice(value.unwrap_or_default().as_bytes());
    }

    pub fn compact_string(&mut self, value: &str) {
        self.compact_nullable_string(Some(value));
    }

    pub fn compact_nullable_string(&mut self, value: Option<&str>) {
        self.compact_nullable_bytes(value.map(str::as_bytes));
    }

    pub fn bytes(&mut self, value: &[u8]) {
        self.i32(fits(value.len()));
        self.bytes.put_slice(value);
    }

    pub fn nullable_bytes(&mut self, value: Option<&[u8]>) {
        self.i32(value.map_or(-1, |bytes| fits(bytes.len())));
        self.bytes.put_slice(value.unwrap_or_default());
    }

    pub fn compact_bytes(&mut self, value: &[u8]) {
        self.compact_nullable_bytes(Some(value));
    }

    pub fn compact_nullable_bytes(&mut self, value: Option<&[u8]>) {
        self.unsigned_varint(value.map_or(0, |bytes| fits(bytes.len() + 1)));
        self.bytes.put_slice(value.unwrap_or_default());
    }

    pub fn array<T>(&mut self, items: &[T], mut each: impl FnMut(&mut Writer, &T)) {
        self.i32(fits(items.len()));
        items.iter().for_each(|item| each(self, item));
    }

    pub fn compact_array<T>(&mut self, items: &[T], each: impl FnMut(&mut Writer, &T)) {
        self.compact_nullable_array(Some(items), each);
    }

    pub fn compact_nullable_array<T>(&mut self, items: Option<&[T]>, mut each: impl FnMut(&mut Writer, &T)) {
        self.unsigned_varint(items.map_or(0, |items| fits(items.len() + 1)));
        items.unwrap_or_default().iter().for_each(|item| each(self, item));
    }

    /// The tagged fields that end a structure of a flexible version; tags rise. See [`Writer::tagged`].
    pub fn tags(&mut self, fields: &[(u32, Bytes)]) {
        assert!(fields.windows(2).all(|pair| pair[0].0 < pair[1].0), "tags must rise");
        self.unsigned_varint(fits(fields.len()));
        for (tag, value) in fields {
            self.unsigned_varint(*tag);
            self.unsigned_varint(fits(value.len()));
            self.bytes.put_slice(value);
        }
    }

    /// One tagged field for [`Writer::tags`].
    pub fn tagged(tag: u32, value: impl FnOnce(&mut Writer)) -> (u32, Bytes) {
        let mut field = Writer::new();
        value(&mut field);
        (tag, field.finish())
    }
}

/// Reads values one after the other; `what` names the structure in errors.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    what: &'static str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(what: &'static str, bytes: &'a [u8]) -> Reader<'a> {
        Reader { what, bytes, at: 0 }
    }

    pub fn error(&self, problem: WireProblem) -> WireError {
        WireError { what: self.what, at: self.at, problem }
    }

    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Everything must have been read.
    pub fn finish(self) -> Result<(), WireError> {
        match self.remaining() {
            0 => Ok(()),
            left => Err(self.error(WireProblem::LeftOver { left })),
        }
    }

    fn take(&mut self, wanted: usize) -> Result<&'a [u8], WireError> {
        let left = self.remaining();
        if wanted > left {
            return Err(self.error(WireProblem::TooShort { wanted, left }));
        }
        let taken = &self.bytes[self.at..self.at + wanted];
        self.at += wanted;
        Ok(taken)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let mut fixed = [0; N];
        fixed.copy_from_slice(self.take(N)?);
        Ok(fixed)
    }

    pub fn bool(&mut self) -> Result<bool, WireError> {
        Ok(self.i8()? != 0)
    }

    pub fn i8(&mut self) -> Result<i8, WireError> {
        Ok(i8::from_be_bytes(self.fixed()?))
    }

    pub fn i16(&mut self) -> Result<i16, WireError> {
        Ok(i16::from_be_bytes(self.fixed()?))
    }

    pub fn u16(&mut self) -> Result<u16, WireError> {
        Ok(u16::from_be_bytes(self.fixed()?))
    }

    pub fn i32(&mut self) -> Result<i32, WireError> {
        Ok(i32::from_be_bytes(self.fixed()?))
    }

    pub fn i64(&mut self) -> Result<i64, WireError> {
        Ok(i64::from_be_bytes(self.fixed()?))
    }

    pub fn uuid(&mut self) -> Result<Uuid, WireError> {
        Ok(Uuid::from_bytes(self.fixed()?))
    }

    pub fn unsigned_varint(&mut self) -> Result<u32, WireError> {
        let mut value = 0u32;
        for place in 0..5 {
            let byte = self.fixed::<1>()?[0];
            value |= u32::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.error(WireProblem::Varint))
    }

    /// A length of the plain form: -1 is null.
    fn plain_length(&self, length: i64) -> Result<Option<usize>, WireError> {
        match length {
            -1 => Ok(None),
            _ => usize::try_from(length).map(Some).map_err(|_| self.error(WireProblem::Length(length))),
        }
    }

    /// A length of the compact form: 0 is null.
    fn compact_length(&mut self) -> Result<Option<usize>, WireError> {
        Ok(self.unsigned_varint()?.checked_sub(1).map(|length| length as usize))
    }

    fn present<T>(&self, value: Option<T>) -> Result<T, WireError> {
        value.ok_or_else(|| self.error(WireProblem::Null))
    }

    fn text(&mut self, length: Option<usize>) -> Result<Option<&'a str>, WireError> {
        let Some(length) = length else { return Ok(None) };
        let error = self.error(WireProblem::Utf8);
        std::str::from_utf8(self.take(length)?).map(Some).map_err(|_| error)
    }

    pub fn string(&mut self) -> Result<&'a str, WireError> {
        let value = self.nullable_string()?;
        self.present(value)
    }

    pub fn nullable_string(&mut self) -> Result<Option<&'a str>, WireError> {
        let length = self.i16()?;
        let length = self.plain_length(i64::from(length))?;
        self.text(length)
    }

    pub fn compact_string(&mut self) -> Result<&'a str, WireError> {
        let value = self.compact_nullable_string()?;
        self.present(value)
    }

    pub fn compact_nullable_string(&mut self) -> Result<Option<&'a str>, WireError> {
        let length = self.compact_length()?;
        self.text(length)
    }

    pub fn bytes(&mut self) -> Result<&'a [u8], WireError> {
        let value = self.nullable_bytes()?;
        self.present(value)
    }

    pub fn nullable_bytes(&mut self) -> Result<Option<&'a [u8]>, WireError> {
        let length = self.i32()?;
        self.plain_length(i64::from(length))?.map(|length| self.take(length)).transpose()
    }

    pub fn compact_bytes(&mut self) -> Result<&'a [u8], WireError> {
        let value = self.compact_nullable_bytes()?;
        self.present(value)
    }

    pub fn compact_nullable_bytes(&mut self) -> Result<Option<&'a [u8]>, WireError> {
        self.compact_length()?.map(|length| self.take(length)).transpose()
    }

    pub fn array<T>(
        &mut self,
        each: impl FnMut(&mut Reader<'a>) -> Result<T, WireError>,
    ) -> Result<Vec<T>, WireError> {
        let length = self.i32()?;
        let length = self.plain_length(i64::from(length))?;
        let length = self.present(length)?;
        self.items(length, each)
    }

    pub fn compact_array<T>(
        &mut self,
        each: impl FnMut(&mut Reader<'a>) -> Result<T, WireError>,
    ) -> Result<Vec<T>, WireError> {
        let value = self.compact_nullable_array(each)?;
        self.present(value)
    }

    pub fn compact_nullable_array<T>(
        &mut self,
        each: impl FnMut(&mut Reader<'a>) -> Result<T, WireError>,
    ) -> Result<Option<Vec<T>>, WireError> {
        self.compact_length()?.map(|length| self.items(length, each)).transpose()
    }

    fn items<T>(
        &mut self,
        length: usize,
        mut each: impl FnMut(&mut Reader<'a>) -> Result<T, WireError>,
    ) -> Result<Vec<T>, WireError> {
        // Every element takes at least a byte, so a longer array cannot be there.
        if length > self.remaining() {
            return Err(self.error(WireProblem::TooShort { wanted: length, left: self.remaining() }));
        }
        (0..length).map(|_| each(self)).collect()
    }

    /// The tagged fields that end a structure: each tag with a reader of its value.
    pub fn tags(&mut self) -> Result<Vec<(u32, Reader<'a>)>, WireError> {
        let count = self.unsigned_varint()? as usize;
        let mut least = 0;
        self.items(count, |r| {
            let tag = r.unsigned_varint()?;
            if tag < least {
                return Err(r.error(WireProblem::TagOrder(tag)));
            }
            least = tag.saturating_add(1);
            let length = r.unsigned_varint()? as usize;
            Ok((tag, Reader::new(r.what, r.take(length)?)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, write: impl Fn(&mut Writer), expected: &[u8], read: impl Fn(&mut Reader<'_>)) {
        let mut writer = Writer::new();
        write(&mut writer);
        let bytes = writer.finish();
        assert_eq!(&bytes[..], expected, "{name}");
        let mut reader = Reader::new("test", &bytes);
        read(&mut reader);
        assert_eq!(reader.finish(), Ok(()), "{name}");
    }

    #[test]
    fn each_value_reads_back_from_the_bytes_that_kafka_writes() {
        check(
            "i64",
            |w| w.i64(-2),
            &[255, 255, 255, 255, 255, 255, 255, 254],
            |r| {
                assert_eq!(r.i64(), Ok(-2));
            },
        );
        check("u16", |w| w.u16(0x8001), &[0x80, 1], |r| assert_eq!(r.u16(), Ok(0x8001)));
        check("bool", |w| w.bool(true), &[1], |r| assert_eq!(r.bool(), Ok(true)));
        check("varint", |w| w.unsigned_varint(300), &[0xac, 2], |r| assert_eq!(r.unsigned_varint(), Ok(300)));
        check(
            "largest varint",
            |w| w.unsigned_varint(u32::MAX),
            &[255, 255, 255, 255, 15],
            |r| {
                assert_eq!(r.unsigned_varint(), Ok(u32::MAX));
            },
        );
        check("string", |w| w.string("ü"), &[0, 2, 0xc3, 0xbc], |r| assert_eq!(r.string(), Ok("ü")));
        check(
            "null",
            |w| w.nullable_string(None),
            &[255, 255],
            |r| assert_eq!(r.nullable_string(), Ok(None)),
        );
        check(
            "compact string",
            |w| w.compact_string("a"),
            &[2, b'a'],
            |r| {
                assert_eq!(r.compact_string(), Ok("a"));
            },
        );
        check(
            "compact null",
            |w| w.compact_nullable_string(None),
            &[0],
            |r| {
                assert_eq!(r.compact_nullable_string(), Ok(None));
            },
        );
        check("bytes", |w| w.bytes(&[7]), &[0, 0, 0, 1, 7], |r| assert_eq!(r.bytes(), Ok(&[7u8][..])));
        check(
            "compact bytes",
            |w| w.compact_bytes(&[]),
            &[1],
            |r| {
                assert_eq!(r.compact_bytes(), Ok(&[][..]));
            },
        );
        check(
            "array",
            |w| w.array(&[5i8, 6], |w, v| w.i8(*v)),
            &[0, 0, 0, 2, 5, 6],
            |r| {
                assert_eq!(r.array(Reader::i8), Ok(vec![5, 6]));
            },
        );
        check(
            "compact array",
            |w| w.compact_array(&[5i8], |w, v| w.i8(*v)),
            &[2, 5],
            |r| {
                assert_eq!(r.compact_array(Reader::i8), Ok(vec![5]));
            },
        );
        check(
            "null array",
            |w| w.compact_nullable_array(None::<&[i8]>, |w, v| w.i8(*v)),
            &[0],
            |r| {
                assert_eq!(r.compact_nullable_array(Reader::i8), Ok(None));
            },
        );
        check(
            "uuid",
            |w| w.uuid(Uuid::from_u128(1)),
            &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
            |r| {
                assert_eq!(r.uuid(), Ok(Uuid::from_u128(1)));
            },
        );
    }

    #[test]
    fn a_tagged_field_carries_its_tag_and_length() {
        let write = |w: &mut Writer| w.tags(&[Writer::tagged(3, |w| w.i16(9))]);
        check("tags", write, &[1, 3, 2, 0, 9], |r| {
            let mut tags = r.tags().unwrap();
            assert_eq!((tags.len(), tags[0].0, tags[0].1.i16()), (1, 3, Ok(9)));
        });
        check("no tags", |w| w.tags(&[]), &[0], |r| assert!(r.tags().unwrap().is_empty()));
    }

    fn refused<T: std::fmt::Debug>(
        bytes: &[u8],
        read: impl Fn(&mut Reader<'_>) -> Result<T, WireError>,
        expected: &str,
    ) {
        assert_eq!(
            read(&mut Reader::new("test", bytes)).unwrap_err().to_string(),
            format!("test: {expected}")
        );
    }

    #[test]
    fn bytes_that_nobody_wrote_are_refused_with_their_place() {
        refused(&[0], |r| r.i32(), "4 bytes wanted, 1 left at byte 0");
        refused(&[0, 5, b'a'], |r| r.string().map(str::len), "5 bytes wanted, 1 left at byte 2");
        refused(&[255, 255], |r| r.string().map(str::len), "null where a value must be at byte 2");
        refused(&[255, 254], |r| r.nullable_string().map(|_| ()), "length -2 is impossible at byte 2");
        refused(&[0, 1, 0xff], |r| r.string().map(str::len), "a string that is not UTF-8 at byte 2");
        refused(&[0x80; 6], |r| r.unsigned_varint(), "a varint longer than five bytes at byte 5");
        refused(&[127, 0, 0, 0], |r| r.array(Reader::i8), "2130706432 bytes wanted, 0 left at byte 4");
        refused(&[2, 1, 0, 1, 0], |r| r.tags().map(|_| ()), "tag 1 out of order at byte 4");
        refused(&[1, 2], |r| r.i8().and_then(|_| r.clone().finish()), "1 bytes left over at byte 1");
    }
}
