//! Requests within requests: how a broker passes a client's request on to the controller (KIP-590, Envelope).

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable};

use super::protocol::{ApiKey, CodecError, Request, Response};
use super::types::ClientName;

/// Header versions of flexible requests and responses; all that are passed on are flexible.
const REQUEST_HEADER: i16 = 2;
const RESPONSE_HEADER: i16 = 1;

/// The request with its header, as the client sent it.
pub fn seal_request(request: &Request, client: &ClientName, correlation: i32) -> Result<Bytes, CodecError> {
    let header = RequestHeader::default()
        .with_request_api_key(request.api() as i16)
        .with_request_api_version(request.api().version())
        .with_correlation_id(correlation)
        .with_client_id(Some(client.to_wire()));
    let mut bytes = BytesMut::new();
    let version = request.api().version();
    header
        .encode(&mut bytes, REQUEST_HEADER)
        .map_err(|error| CodecError::new(request.api(), version, error))?;
    request.encode(&mut bytes, version)?;
    Ok(bytes.freeze())
}

/// The request in an envelope, with its correlation id.
pub fn open(mut bytes: Bytes) -> Result<(Request, i32), CodecError> {
    let envelope = |error: String| CodecError::new(ApiKey::Envelope, ApiKey::Envelope.version(), error);
    let header =
        RequestHeader::decode(&mut bytes, REQUEST_HEADER).map_err(|error| envelope(error.to_string()))?;
    let known = ApiKey::ALL.iter().copied().find(|api| *api as i16 == header.request_api_key);
    let api = known.ok_or_else(|| envelope(format!("api key {} is unknown", header.request_api_key)))?;
    if header.request_api_version != api.version() {
        return Err(envelope(format!("version {} of {}", header.request_api_version, api.name())));
    }
    Ok((Request::decode(api, api.version(), &mut bytes)?, header.correlation_id))
}

pub fn seal_response(response: &Response, correlation: i32) -> Result<Bytes, CodecError> {
    let mut bytes = BytesMut::new();
    let header = ResponseHeader::default().with_correlation_id(correlation);
    let (api, version) = (response.api(), response.api().version());
    header.encode(&mut bytes, RESPONSE_HEADER).map_err(|error| CodecError::new(api, version, error))?;
    response.encode(&mut bytes, version)?;
    Ok(bytes.freeze())
}

/// The answer in an envelope's answer.
pub fn open_response(api: ApiKey, mut bytes: Bytes) -> Result<Response, CodecError> {
    let version = api.version();
    ResponseHeader::decode(&mut bytes, RESPONSE_HEADER)
        .map_err(|error| CodecError::new(api, version, error))?;
    Response::decode(api, version, &mut bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::{CreateTopicsRequest, CreateTopicsResponse};

    #[test]
    fn a_request_and_its_answer_survive_the_envelope() {
        let request: Request = CreateTopicsRequest::default().with_timeout_ms(5000).into();
        let sealed = seal_request(&request, &"kafka-topics".into(), 7).expect("fits");
        assert_eq!(open(sealed), Ok((request, 7)));
        let response: Response = CreateTopicsResponse::default().into();
        let sealed = seal_response(&response, 7).expect("fits");
        assert_eq!(open_response(ApiKey::CreateTopics, sealed), Ok(response));
    }

    #[test]
    fn an_envelope_with_anything_else_is_refused() {
        assert!(open(Bytes::from_static(&[0, 99, 0, 0, 0, 0, 0, 1, 255, 255, 0])).is_err());
        assert!(open(Bytes::new()).is_err());
    }
}
