//! From the request line to a route. A pure function: it decides neither who may call nor what happens.

use url::{Url, form_urlencoded};

use crate::proto::dsh::js;
use crate::proto::dsh::names::DshId;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    About,
    /// `GET /healthz`, which the second generation added.
    Health,
    /// `GET /metrics`, which is ours.
    Metrics,
    Register,
    Peers,
    Send,
    Poll {
        since: Option<DshId>,
        limit: u32,
    },
    Pull,
    Ack,
    Status,
    Recent,
    Query,
    /// `POST /messages/<id>/ack`. The reference has this route for hexadecimal ids only; others are served for
    /// messages from beyond the machine.
    Receipt {
        id: DshId,
        hexadecimal: bool,
    },
    /// Ours; only where something carries files.
    Parcel(ParcelRoute),
    Unknown,
}

/// What only a carrier does, for agents of either generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParcelRoute {
    /// `PUT /bridge/v1/files`.
    Upload,
    /// `GET /bridge/v1/messages/<id>/files`.
    Files(DshId),
    /// `POST /bridge/v1/messages/<id>/cancel`.
    Withdraw(DshId),
}

/// The route, and the path as the reference would name it: dot segments resolved, nothing decoded.
pub fn parse(method: &str, target: &str) -> (Route, String) {
    let Some(url) = url(target) else { return (Route::Unknown, target.to_owned()) };
    let route = match (method, url.path()) {
        ("GET", "/") => Route::About,
        ("GET", "/healthz") => Route::Health,
        ("GET", "/metrics") => Route::Metrics,
        ("POST", "/register") => Route::Register,
        ("GET", "/peers") => Route::Peers,
        ("POST", "/messages") => Route::Send,
        ("GET", "/messages") => poll(url.query().unwrap_or_default()),
        ("POST", "/v1/pull") => Route::Pull,
        ("POST", "/v1/ack") => Route::Ack,
        ("POST", "/v1/status") => Route::Status,
        ("POST", "/v1/recent") => Route::Recent,
        ("POST", "/v1/messages/query") => Route::Query,
        ("PUT", "/bridge/v1/files") => Route::Parcel(ParcelRoute::Upload),
        ("GET", path) => carried(path, "files", ParcelRoute::Files),
        ("POST", path) if path.starts_with(CARRIED) => carried(path, "cancel", ParcelRoute::Withdraw),
        ("POST", path) => receipt(path).unwrap_or(Route::Unknown),
        _ => Route::Unknown,
    };
    (route, url.path().to_owned())
}

fn url(target: &str) -> Option<Url> {
    // The host is never looked at; it makes an URL of the target.
    let origin_form = target.starts_with('/') || target == "*";
    if origin_form {
        Url::parse(&format!("http://broker/{}", target.strip_prefix('/').unwrap_or(target))).ok()
    } else {
        Url::parse(target).ok()
    }
}

fn poll(query: &str) -> Route {
    let first = |name: &str| {
        form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == name).map(|(_, value)| value)
    };
    Route::Poll {
        since: first("since").map(DshId::new),
        limit: js::limit(first("limit").map(|limit| js::number(&limit))),
    }
}

fn receipt(path: &str) -> Option<Route> {
    let id = path.strip_prefix("/messages/")?.strip_suffix("/ack")?;
    if id.is_empty() || id.contains('/') {
        return None;
    }
    let hexadecimal = id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    Some(Route::Receipt { id: DshId::new(percent_decoded(id)), hexadecimal })
}

/// The messages that something carries.
const CARRIED: &str = "/bridge/v1/messages/";

fn carried(path: &str, what: &str, asked: impl FnOnce(DshId) -> ParcelRoute) -> Route {
    let id = || path.strip_prefix(CARRIED)?.strip_suffix(what)?.strip_suffix('/');
    match id().filter(|id| !id.is_empty() && !id.contains('/')) {
        Some(id) => Route::Parcel(asked(DshId::new(percent_decoded(id)))),
        None => Route::Unknown,
    }
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = if *first == b'%' { after.get(..2).and_then(|pair| hex::decode(pair).ok()) } else { None };
        match code {
            Some(code) => {
                bytes.extend(code);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(method: &str, target: &str) -> Route {
        parse(method, target).0
    }

    #[test]
    fn paths_are_matched_letter_by_letter() {
        assert_eq!(route("GET", "/?verbose=1"), Route::About);
        assert_eq!(route("GET", "/healthz?x=1"), Route::Health);
        assert_eq!(route("GET", "/metrics"), Route::Metrics);
        assert_eq!(route("POST", "/register?x=1"), Route::Register);
        assert_eq!(route("GET", "/a/../peers"), Route::Peers);
        assert_eq!(route("GET", "/peers?"), Route::Peers);
        assert_eq!(route("GET", "http://other.example/peers?x=1"), Route::Peers);
        for (method, target) in [
            ("HEAD", "/"),
            ("POST", "/healthz"),
            ("POST", "/metrics"),
            ("GET", "/metrics/"),
            ("GET", "/healthz/"),
            ("GET", "/peers/"),
            ("GET", "/PEERS"),
            ("GET", "/%70eers"),
            ("GET", "//x/peers"),
            ("GET", "//"),
            ("OPTIONS", "*"),
            ("GET", "/peers;x=1"),
            ("GET", "/register"),
            ("GET", "/messages/abc/ack"),
            ("POST", "/messages//ack"),
            ("POST", "/messages/abc/ack/"),
            ("GET", "::"),
        ] {
            assert_eq!(route(method, target), Route::Unknown, "{method} {target}");
        }
        assert_eq!(parse("GET", "/peers/.").1, "/peers/");
    }

    #[test]
    fn a_poll_takes_the_first_of_each_parameter() {
        let poll = |query: &str| route("GET", &format!("/messages?{query}"));
        assert_eq!(
            poll("since=%6D1&since=m3&limit=5&limit=9"),
            Route::Poll { since: Some(DshId::new("m1")), limit: 5 }
        );
        assert_eq!(poll("since=m1+"), Route::Poll { since: Some(DshId::new("m1 ")), limit: 50 });
        assert_eq!(poll("since="), Route::Poll { since: Some(DshId::new("")), limit: 50 });
        assert_eq!(poll("Since=m3&limit="), Route::Poll { since: None, limit: 1 });
    }

    #[test]
    fn what_is_carried_has_routes_of_its_own() {
        let carried = |method: &str, target: &str| match route(method, target) {
            Route::Parcel(carried) => carried,
            other => panic!("{other:?}"),
        };
        assert_eq!(carried("PUT", "/bridge/v1/files"), ParcelRoute::Upload);
        assert_eq!(carried("GET", "/bridge/v1/messages/a%2Fb/files"), ParcelRoute::Files(DshId::new("a/b")));
        assert_eq!(carried("POST", "/bridge/v1/messages/m1/cancel"), ParcelRoute::Withdraw(DshId::new("m1")));
        for (method, target) in [
            ("GET", "/bridge/v1/files"),
            ("GET", "/bridge/v1/messages//files"),
            ("GET", "/bridge/v1/messages/a/b/files"),
            ("POST", "/bridge/v1/messages/m1/ack"),
        ] {
            assert_eq!(route(method, target), Route::Unknown, "{method} {target}");
        }
    }

    #[test]
    fn receipts_take_any_id_and_tell_hexadecimal_ones_apart() {
        let receipt = |target: &str| route("POST", target);
        assert_eq!(
            receipt("/messages/abc-123/ack?x=1"),
            Route::Receipt { id: DshId::new("abc-123"), hexadecimal: true }
        );
        assert_eq!(
            receipt("/messages/%61bc/ack"),
            Route::Receipt { id: DshId::new("abc"), hexadecimal: false }
        );
        assert_eq!(
            receipt("/messages/a%2Fb%zz%/ack"),
            Route::Receipt { id: DshId::new("a/b%zz%"), hexadecimal: false }
        );
        // As Node reads an absolute target: a backslash is a slash, but not where the scheme is its own.
        assert_eq!(receipt(r"http://h/messages/a\b/ack"), Route::Unknown);
        assert_eq!(
            receipt(r"own://h/messages/a\b/ack"),
            Route::Receipt { id: DshId::new(r"a\b"), hexadecimal: false }
        );
    }
}
