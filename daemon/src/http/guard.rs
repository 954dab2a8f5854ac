//! Who is served: programs and pages of this machine that know the cluster's token.
//!
//! A page of the web can make a browser send requests to loopback. It cannot set a `Host` that is an IP address without
//! connecting to that address, it cannot hide its `Origin`, and it does not know the token.

use std::net::IpAddr;

use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::App;
use super::fault::Fault;

/// Longest message of a library that is passed on.
const LONGEST_MESSAGE: usize = 4096;

/// Serves a request, or says why not.
pub(super) async fn admit(State(app): State<App>, request: Request, next: Next) -> Response {
    match check(&app, request.headers(), request.uri()) {
        Ok(()) => in_our_words(next.run(request).await).await,
        Err(fault) => fault.into_response(),
    }
}

fn check(app: &App, headers: &HeaderMap, uri: &Uri) -> Result<(), Fault> {
    let host = text(headers, HOST).unwrap_or_default();
    if !is_local(host) {
        return Err(Fault::Foreign { header: "Host", found: host.to_owned() });
    }
    if let Some(origin) = text(headers, ORIGIN)
        && origin.strip_prefix("http://") != Some(host)
    {
        return Err(Fault::Foreign { header: "Origin", found: origin.to_owned() });
    }
    let bearer = text(headers, AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
    // A browser's address bar cannot set a header.
    let typed = (uri.path() == "/").then(|| uri.query()?.strip_prefix("token=")).flatten();
    match bearer.or(typed) {
        Some(token) if app.token.is(token.trim()) => Ok(()),
        Some(_) => Err(Fault::Token { found: "another one" }),
        None => Err(Fault::Token { found: "none" }),
    }
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    // What is not text is nobody's address and nobody's token.
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}

/// An IP address or `localhost`, perhaps with a port: a name that somebody else's DNS answers for is none of these.
fn is_local(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost" || name.parse::<IpAddr>().is_ok()
}

/// What a library refuses (a body too large, a query or path that cannot be read) as JSON like everything else.
async fn in_our_words(response: Response) -> Response {
    let status = response.status();
    let is_json = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes() == b"application/json");
    if is_json || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let said = to_bytes(response.into_body(), LONGEST_MESSAGE).await.unwrap_or_default();
    let said = String::from_utf8_lossy(&said).trim().to_owned();
    match status {
        StatusCode::PAYLOAD_TOO_LARGE => Fault::TooLarge(said).into_response(),
        other => Fault::Library { status: other, said }.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_localhost_are_local() {
        for host in ["127.0.0.1:80", "127.0.0.2", "localhost", "localhost:1", "[::1]:80", "[::1]"] {
            assert!(is_local(host), "{host}");
        }
        for host in ["", "evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example:80"] {
            assert!(!is_local(host), "{host}");
        }
    }
}
