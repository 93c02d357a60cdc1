//! Bytes to values.

use uuid::Uuid;

use super::{WireError, WireProblem};

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
        let value = self.nullable_array(each)?;
        self.present(value)
    }

    pub fn nullable_array<T>(
        &mut self,
        each: impl FnMut(&mut Reader<'a>) -> Result<T, WireError>,
    ) -> Result<Option<Vec<T>>, WireError> {
        let length = self.i32()?;
        let length = self.plain_length(i64::from(length))?;
        length.map(|length| self.items(length, each)).transpose()
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
