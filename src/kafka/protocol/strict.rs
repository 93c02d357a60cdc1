//! Strict mode: each message is encoded and decoded on its way and must come back equal.
//!
//! **Invariant:** nothing passes that the wire could not carry; a field that is set and that the version does not have
//! is a failure, not a loss.

use bytes::{Buf, BytesMut};

use super::{CodecError, Request, Response};

/// `request` as it arrives on the other side, carried at a version.
pub fn carry_request(request: &Request, version: i16) -> Result<Request, CodecError> {
    let mut buffer = BytesMut::new();
    request.encode(&mut buffer, version)?;
    let mut bytes = buffer.freeze();
    let arrived = Request::decode(request.api(), version, &mut bytes)?;
    if bytes.has_remaining() || arrived != *request {
        return Err(CodecError::new(request.api(), version, differs(request, &arrived)));
    }
    Ok(arrived)
}

/// `response` as it arrives on the other side, carried at a version.
pub fn carry_response(response: &Response, version: i16) -> Result<Response, CodecError> {
    let mut buffer = BytesMut::new();
    response.encode(&mut buffer, version)?;
    let mut bytes = buffer.freeze();
    let arrived = Response::decode(response.api(), version, &mut bytes)?;
    if bytes.has_remaining() || arrived != *response {
        return Err(CodecError::new(response.api(), version, differs(response, &arrived)));
    }
    Ok(arrived)
}

/// Both sides in full, where the text of every message's fields is not a burden: the page leaves it out.
#[cfg(feature = "native")]
fn differs<T: std::fmt::Debug>(sent: &T, arrived: &T) -> String {
    format!("sent {sent:?}, arrived {arrived:?}")
}

#[cfg(not(feature = "native"))]
fn differs<T>(_sent: &T, _arrived: &T) -> String {
    "does not come back as it was sent".to_string()
}
