//! Kinds that are on their way out: each answer that is about one says so, before it says anything else.
use axum::response::Response;
use http::{HeaderValue, header};

use super::answer::with_warnings;
use super::route::Words;

const ENDPOINTS: &str = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";

/// Adds the warning where the request is for such a kind, whatever came of it.
pub fn with_warning(words: &Words, mut response: Response) -> Response {
    let parts: Vec<&str> = words.path.split('/').filter(|part| !part.is_empty()).collect();
    let methods: &[&str] = match parts.as_slice() {
        ["api", "v1", "endpoints"] => &["GET"],
        ["api", "v1", "namespaces", _, "endpoints"] => &["GET", "POST", "DELETE"],
        ["api", "v1", "namespaces", _, "endpoints", _] => &["GET", "PUT", "PATCH", "DELETE"],
        _ => &[],
    };
    // A patch of no kind that is known finds nobody who could say so.
    let unheard = words.method == http::Method::PATCH && response.status() == http::StatusCode::UNSUPPORTED_MEDIA_TYPE;
    if !methods.contains(&words.method.as_str()) || unheard {
        return response;
    }
    let others: Vec<HeaderValue> = response.headers().get_all(header::WARNING).iter().cloned().collect();
    response.headers_mut().remove(header::WARNING);
    let mut response = with_warnings(response, &[ENDPOINTS.to_owned()]);
    for other in others {
        response.headers_mut().append(header::WARNING, other);
    }
    response
}
