//! ApiVersions: which requests a node serves, at which version (KIP-511).

use kafka_protocol::messages::ApiVersionsResponse;
use kafka_protocol::messages::api_versions_response::ApiVersion;

use super::protocol::ApiKey;

pub fn response(served: &[ApiKey]) -> ApiVersionsResponse {
    let keys = served.iter().map(|api| {
        ApiVersion::default()
            .with_api_key(*api as i16)
            .with_min_version(api.version())
            .with_max_version(api.version())
    });
    ApiVersionsResponse::default().with_api_keys(keys.collect())
}
