//! Flexible structures as tables of their fields, as Kafka's message schemas write them.
//!
//! **Invariant:** the fields are written in the order in which they stand, and tagged fields, of which there are none,
//! after them.

use bytes::Bytes;
use uuid::Uuid;

use super::{Reader, WireError, Writer};
use crate::kafka::types::{GroupEpoch, LeaderEpoch, Offset, Topic, TopicId};

/// A value that has one form in flexible versions.
pub trait Field: Sized {
    fn write(&self, w: &mut Writer);

    /// # Errors
    /// The bytes are none of this kind.
    fn read(r: &mut Reader<'_>) -> Result<Self, WireError>;
}

macro_rules! plain {
    ($($kind:ty: $name:ident),*) => {
        $(impl Field for $kind {
            fn write(&self, w: &mut Writer) {
                w.$name(*self);
            }

            fn read(r: &mut Reader<'_>) -> Result<$kind, WireError> {
                r.$name()
            }
        })*
    };
}

plain!(bool: bool, i8: i8, i16: i16, i32: i32, i64: i64, Uuid: uuid);

macro_rules! wrapped {
    ($($kind:ident: $name:ident),*) => {
        $(impl Field for $kind {
            fn write(&self, w: &mut Writer) {
                w.$name(self.0);
            }

            fn read(r: &mut Reader<'_>) -> Result<$kind, WireError> {
                r.$name().map($kind)
            }
        })*
    };
}

wrapped!(GroupEpoch: i32, LeaderEpoch: i32, Offset: i64, TopicId: uuid);

impl Field for Topic {
    fn write(&self, w: &mut Writer) {
        w.compact_string(self.as_str());
    }

    fn read(r: &mut Reader<'_>) -> Result<Topic, WireError> {
        r.compact_string().map(Topic::new)
    }
}

impl Field for String {
    fn write(&self, w: &mut Writer) {
        w.compact_string(self);
    }

    fn read(r: &mut Reader<'_>) -> Result<String, WireError> {
        Ok(r.compact_string()?.to_string())
    }
}

impl Field for Option<String> {
    fn write(&self, w: &mut Writer) {
        w.compact_nullable_string(self.as_deref());
    }

    fn read(r: &mut Reader<'_>) -> Result<Option<String>, WireError> {
        Ok(r.compact_nullable_string()?.map(str::to_string))
    }
}

impl Field for Bytes {
    fn write(&self, w: &mut Writer) {
        w.compact_bytes(self);
    }

    fn read(r: &mut Reader<'_>) -> Result<Bytes, WireError> {
        Ok(Bytes::copy_from_slice(r.compact_bytes()?))
    }
}

impl<T: Field> Field for Vec<T> {
    fn write(&self, w: &mut Writer) {
        w.compact_array(self, |w, item| item.write(w));
    }

    fn read(r: &mut Reader<'_>) -> Result<Vec<T>, WireError> {
        r.compact_array(T::read)
    }
}

/// A structure of two fields.
impl<A: Field, B: Field> Field for (A, B) {
    fn write(&self, w: &mut Writer) {
        self.0.write(w);
        self.1.write(w);
        w.tags(&[]);
    }

    fn read(r: &mut Reader<'_>) -> Result<(A, B), WireError> {
        let read = (A::read(r)?, B::read(r)?);
        r.tags()?;
        Ok(read)
    }
}

/// Structures with their fields in the order of the wire.
macro_rules! tables {
    ($($(#[$about:meta])* $name:ident { $($(#[$field_about:meta])* $field:ident: $kind:ty,)* })*) => {
        $(
            $(#[$about])*
            #[derive(Clone, Debug, PartialEq, Eq)]
            pub struct $name {
                $($(#[$field_about])* pub $field: $kind,)*
            }

            impl $crate::kafka::protocol::wire::Field for $name {
                fn write(&self, w: &mut $crate::kafka::protocol::wire::Writer) {
                    $(self.$field.write(w);)*
                    w.tags(&[]);
                }

                fn read(
                    r: &mut $crate::kafka::protocol::wire::Reader<'_>,
                ) -> Result<$name, $crate::kafka::protocol::wire::WireError> {
                    $(let $field = $crate::kafka::protocol::wire::Field::read(r)?;)*
                    r.tags()?;
                    Ok($name { $($field,)* })
                }
            }
        )*
    };
}

pub(in crate::kafka::protocol) use tables;
