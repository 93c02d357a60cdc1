//! Codecs for the records of a batch (Kafka's `Compression`, `CompressionType`).
//!
//! The header stays plain; what follows it is one compressed block. Snappy comes in the frames of Java's snappy library
//! (xerial), lz4 in its own frames. Compiled with the feature `codecs`.
//!
//! **Invariant:** a block never takes more than [`MAX_BLOCK_BYTES`] once it is decompressed.

use std::fmt;

use bytes::Bytes;

use super::error::BatchError;

/// `buffer.memory` of a producer by default: it has no larger batch to send.
pub const MAX_BLOCK_BYTES: usize = 32 << 20;

/// What a batch's records are compressed with; the value is the codec's id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Compression {
    #[default]
    None = 0,
    Gzip = 1,
    Snappy = 2,
    Lz4 = 3,
    Zstd = 4,
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Compression::None => "none",
            Compression::Gzip => "gzip",
            Compression::Snappy => "snappy",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        })
    }
}

impl Compression {
    pub const ALL: [Compression; 5] =
        [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

    pub(super) fn of_id(id: i16) -> Option<Compression> {
        Compression::ALL.into_iter().find(|codec| *codec as i16 == id)
    }

    /// By the name that `compression.type` has for it.
    pub fn of_name(name: &str) -> Option<Compression> {
        Compression::ALL.into_iter().find(|codec| codec.to_string() == name)
    }

    /// Whether this build can read and write it.
    pub fn is_supported(self) -> bool {
        self == Compression::None || cfg!(feature = "codecs")
    }

    /// Panics if the codec is not supported.
    pub(super) fn compress(self, records: &[u8], gzip_level: Option<u32>) -> Vec<u8> {
        assert!(self.is_supported(), "{self} is not compiled in");
        match self {
            Compression::None => records.to_vec(),
            #[cfg(feature = "codecs")]
            _ => codecs::compress(self, records, gzip_level),
            #[cfg(not(feature = "codecs"))]
            _ => unreachable!("{self} at {gzip_level:?} is not compiled in"),
        }
    }

    pub(super) fn decompress(self, block: &Bytes) -> Result<Bytes, BatchError> {
        match self {
            Compression::None => Ok(block.clone()),
            #[cfg(feature = "codecs")]
            _ => codecs::decompress(self, block),
            #[cfg(not(feature = "codecs"))]
            _ => Err(BatchError::Unsupported(self)),
        }
    }
}

#[cfg(feature = "codecs")]
mod codecs {
    use std::io::{self, Read, Write};

    use bytes::{Buf, BufMut, Bytes};
    use flate2::GzBuilder;
    use flate2::read::MultiGzDecoder;
    use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};
    use ruzstd::decoding::StreamingDecoder;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    use snap::raw::{Decoder, Encoder, decompress_len};

    use super::{BatchError, Compression, MAX_BLOCK_BYTES};

    /// How Java's snappy library starts a stream: its name, and version 1, readable since version 1.
    const XERIAL_MAGIC: [u8; 8] = *b"\x82SNAPPY\0";
    const XERIAL_VERSIONS: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 1];
    const XERIAL_BLOCK_BYTES: usize = 32 << 10;

    pub(super) fn compress(codec: Compression, records: &[u8], gzip_level: Option<u32>) -> Vec<u8> {
        match codec {
            Compression::None => Ok(records.to_vec()),
            Compression::Gzip => {
                gzip(records, gzip_level.map_or_else(Default::default, flate2::Compression::new))
            }
            Compression::Snappy => xerial(records),
            Compression::Lz4 => lz4(records),
            Compression::Zstd => Ok(compress_to_vec(records, CompressionLevel::Fastest)),
        }
        .expect("writing to memory does not fail")
    }

    fn gzip(records: &[u8], level: flate2::Compression) -> io::Result<Vec<u8>> {
        let mut encoder = GzBuilder::new().write(Vec::new(), level);
        encoder.write_all(records)?;
        encoder.finish()
    }

    fn xerial(records: &[u8]) -> io::Result<Vec<u8>> {
        let mut stream = [XERIAL_MAGIC, XERIAL_VERSIONS].concat();
        for block in records.chunks(XERIAL_BLOCK_BYTES) {
            let compressed = Encoder::new().compress_vec(block)?;
            stream.put_i32(compressed.len() as i32);
            stream.extend(compressed);
        }
        Ok(stream)
    }

    fn lz4(records: &[u8]) -> io::Result<Vec<u8>> {
        let frame = FrameInfo::new().block_size(BlockSize::Max64KB).block_mode(BlockMode::Independent);
        let mut encoder = FrameEncoder::with_frame_info(frame, Vec::new());
        encoder.write_all(records)?;
        Ok(encoder.finish()?)
    }

    pub(super) fn decompress(codec: Compression, block: &Bytes) -> Result<Bytes, BatchError> {
        let damaged = BatchError::Decompression(codec);
        match codec {
            Compression::None => Ok(block.clone()),
            Compression::Gzip => read_bounded(MultiGzDecoder::new(&block[..]), damaged),
            Compression::Snappy => unsnap(block),
            Compression::Lz4 => read_bounded(FrameDecoder::new(&block[..]), damaged),
            Compression::Zstd => {
                let limit = MAX_BLOCK_BYTES as u64;
                let decoder = StreamingDecoder::new_with_max_window_size(&block[..], limit);
                read_bounded(decoder.map_err(|_| damaged.clone())?, damaged)
            }
        }
    }

    fn inflated() -> BatchError {
        BatchError::Inflated { limit_bytes: MAX_BLOCK_BYTES as i64 }
    }

    fn read_bounded(from: impl Read, damaged: BatchError) -> Result<Bytes, BatchError> {
        let mut records = Vec::new();
        from.take(MAX_BLOCK_BYTES as u64 + 1).read_to_end(&mut records).map_err(|_| damaged)?;
        if records.len() > MAX_BLOCK_BYTES { Err(inflated()) } else { Ok(records.into()) }
    }

    /// Xerial's stream, or one plain snappy block as other clients send it.
    fn unsnap(block: &Bytes) -> Result<Bytes, BatchError> {
        let mut records = Vec::new();
        if !block.starts_with(&XERIAL_MAGIC) {
            unsnap_block(block, &mut records)?;
            return Ok(records.into());
        }
        const DAMAGED: BatchError = BatchError::Decompression(Compression::Snappy);
        let mut rest = block.get(XERIAL_MAGIC.len() + XERIAL_VERSIONS.len()..).ok_or(DAMAGED)?;
        while !rest.is_empty() {
            let size = rest.try_get_i32().ok().and_then(|size| usize::try_from(size).ok());
            let (part, after) = size.and_then(|size| rest.split_at_checked(size)).ok_or(DAMAGED)?;
            unsnap_block(part, &mut records)?;
            rest = after;
        }
        Ok(records.into())
    }

    fn unsnap_block(block: &[u8], records: &mut Vec<u8>) -> Result<(), BatchError> {
        let damaged = |_| BatchError::Decompression(Compression::Snappy);
        let start = records.len();
        let end = start.saturating_add(decompress_len(block).map_err(damaged)?);
        if end > MAX_BLOCK_BYTES {
            return Err(inflated());
        }
        records.resize(end, 0);
        Decoder::new().decompress(block, &mut records[start..]).map(|_| ()).map_err(damaged)
    }
}
