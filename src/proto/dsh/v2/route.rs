//! From method and path to a route of the second generation; the routes of v1 do not exist here.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    Create,
    Pull,
    Ack,
    Renew,
    Status,
    Recent,
    Query,
    Unfinished,
    Requeue,
    Cancel,
}

/// `None` when there is no such route. `path` has its dot segments resolved and no query.
pub fn parse(method: &str, path: &str) -> Option<Route> {
    if method != "POST" {
        return None;
    }
    Some(match path {
        "/v1/messages" => Route::Create,
        "/v1/pull" => Route::Pull,
        "/v1/ack" => Route::Ack,
        "/v1/lease/renew" => Route::Renew,
        "/v1/status" => Route::Status,
        "/v1/recent" => Route::Recent,
        "/v1/messages/query" => Route::Query,
        "/v1/admin/status" => Route::Unfinished,
        "/v1/admin/requeue" => Route::Requeue,
        "/v1/admin/cancel" => Route::Cancel,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_posts_to_known_paths() {
        assert_eq!(parse("POST", "/v1/pull"), Some(Route::Pull));
        for (method, path) in
            [("GET", "/v1/pull"), ("POST", "/v1/pull/"), ("POST", "/register"), ("POST", "/v1/admin/unknown")]
        {
            assert_eq!(parse(method, path), None, "{method} {path}");
        }
    }
}
