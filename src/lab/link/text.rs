//! A link's text: the format's number, then base64url of a CRC-32C and the deflated fields.
//!
//! | format | content |
//! |---|---|
//! | 1 | a moment of one course of a run: [`Link`] |
//! | 2 | a whole run with its branches: [`Saved`] |
//!
//! **Invariant:** the number comes first and stays readable, so that every version can say of a newer one that it is newer.

use std::io::{self, Read, Write};

use data_encoding::BASE64URL_NOPAD;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Link;
use super::saved::Saved;

/// The newest format that is read.
pub const FORMAT: u32 = 2;
const LINK: u32 = 1;
const SAVED: u32 = 2;
/// No longer text is looked at.
pub const MOST_CHARACTERS: usize = 2_000_000;
/// No more is unpacked.
pub const MOST_BYTES: u64 = 8_000_000;
const CRC_BYTES: usize = 4;

/// Why a text is not read as a link.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    #[error("this is no link to a run: it does not begin with the number of a format")]
    NoLink,
    #[error(
        "the link has format {0}; this version reads formats up to {FORMAT}: open it with a newer version"
    )]
    Newer(u32),
    #[error("the link is longer than {MOST_CHARACTERS} characters")]
    TooLong,
    #[error("the link has something at character {0} that no link contains")]
    Character(usize),
    #[error("the link was cut off or changed on its way: its checksum is wrong")]
    Damaged,
    #[error("the link unpacks to more than {MOST_BYTES} bytes")]
    TooLarge,
    #[error("the link's content is not what its format says")]
    Content,
}

/// What a text holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Link(Link),
    Saved(Saved),
}

impl Content {
    /// What the run is called.
    pub fn name(&self) -> &str {
        match self {
            Content::Link(link) => &link.name,
            Content::Saved(saved) => &saved.name,
        }
    }
}

/// The text of a link, of letters, digits, `-` and `_`.
pub fn encode(link: &Link) -> String {
    seal(LINK, link)
}

/// The text of a whole run.
pub fn encode_saved(saved: &Saved) -> String {
    seal(SAVED, saved)
}

/// Reads a link's or a saved run's text.
///
/// # Errors
///
/// Why it is none that this version can read.
pub fn decode(text: &str) -> Result<Content, LinkError> {
    if text.len() > MOST_CHARACTERS {
        return Err(LinkError::TooLong);
    }
    let mut characters = text.chars();
    let format = characters.next().and_then(|first| first.to_digit(10)).ok_or(LinkError::NoLink)?;
    match format {
        0 => Err(LinkError::NoLink),
        LINK => unseal(characters.as_str()).map(Content::Link),
        SAVED => unseal(characters.as_str()).map(Content::Saved),
        newer => Err(LinkError::Newer(newer)),
    }
}

fn seal(format: u32, fields: &impl Serialize) -> String {
    seal_fields(format, &postcard::to_allocvec(fields).expect("memory takes what is written"))
}

pub(super) fn seal_fields(format: u32, fields: &[u8]) -> String {
    seal_packed(format, &deflate(fields).expect("memory takes what is written"))
}

pub(super) fn seal_packed(format: u32, packed: &[u8]) -> String {
    let mut bytes = crc32c::crc32c(packed).to_be_bytes().to_vec();
    bytes.extend(packed);
    format!("{format}{}", BASE64URL_NOPAD.encode(&bytes))
}

fn unseal<T: DeserializeOwned>(text: &str) -> Result<T, LinkError> {
    postcard::from_bytes(&fields(text)?).map_err(|_| LinkError::Content)
}

/// What is behind the format's number, checked and unpacked.
pub(super) fn fields(text: &str) -> Result<Vec<u8>, LinkError> {
    let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|error| match error.kind {
        data_encoding::DecodeKind::Symbol => LinkError::Character(error.position + 2),
        _ => LinkError::Damaged,
    })?;
    let (crc, packed) = bytes.split_at_checked(CRC_BYTES).ok_or(LinkError::Damaged)?;
    match crc == crc32c::crc32c(packed).to_be_bytes() {
        true => inflate(packed),
        false => Err(LinkError::Damaged),
    }
}

fn deflate(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}

fn inflate(bytes: &[u8]) -> Result<Vec<u8>, LinkError> {
    let mut unpacked = Vec::new();
    let limit = DeflateDecoder::new(bytes).take(MOST_BYTES + 1).read_to_end(&mut unpacked);
    limit.map_err(|_| LinkError::Content)?;
    if unpacked.len() as u64 > MOST_BYTES {
        return Err(LinkError::TooLarge);
    }
    Ok(unpacked)
}
