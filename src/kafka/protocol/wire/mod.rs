//! Kafka's primitive encodings, for the records that live in internal topics and that kafka-protocol does not know.
//!
//! Mirrors `ByteBufferAccessor` and the generated message classes: fixed-width integers are big-endian; a string, a
//! byte string or an array starts with its length, as i16 or i32 in the old ("plain") form and as an unsigned varint
//! of length + 1 in the compact form of flexible versions, which end with tagged fields.
//!
//! **Invariant:** reading what a [`Writer`] wrote gives the same values and leaves nothing over; bytes that nobody
//! could have written are a [`WireError`] with their place, never a panic.

mod reader;
mod writer;
mod table;

pub use reader::Reader;
pub use table::Field;
pub(super) use table::tables;
pub use writer::Writer;

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

#[cfg(test)]
mod tests {
    use uuid::Uuid;

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
