//! Values to bytes.

use bytes::{BufMut, Bytes, BytesMut};
use uuid::Uuid;

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

    pub fn array<T>(&mut self, items: &[T], each: impl FnMut(&mut Writer, &T)) {
        self.nullable_array(Some(items), each);
    }

    pub fn nullable_array<T>(&mut self, items: Option<&[T]>, mut each: impl FnMut(&mut Writer, &T)) {
        self.i32(items.map_or(-1, |items| fits(items.len())));
        items.unwrap_or_default().iter().for_each(|item| each(self, item));
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
