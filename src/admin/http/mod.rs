//! The admin endpoint on the network: one route, one token.

use std::future::{Future, IntoFuture};
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::Administrator;
use crate::crypto::secret::Secret;
use crate::domain::nearby::is_called_by_our_name;

/// A request is a command with a name or two.
const BODY_LIMIT: usize = 64 * 1024;

#[derive(Clone)]
struct Shared {
    administrator: Arc<dyn Administrator>,
    token: Secret,
}

/// Serves `administrator` on `listener`, which must be of loopback, until `stop`; what is under way then may finish
/// until `cut`.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    administrator: Arc<dyn Administrator>,
    token: Secret,
    stop: impl Future<Output = ()> + Send + 'static,
    cut: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let routes = Router::new()
        .route("/", post(call))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(Shared { administrator, token });
    tokio::select! {
        served = axum::serve(listener, routes).with_graceful_shutdown(stop).into_future() => served,
        // Half a request, left open, must not keep the process from ending.
        () = cut => Ok(()),
    }
}

async fn call(State(shared): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    let hosts = headers.get_all(header::HOST).iter().map(HeaderValue::as_bytes);
    if !is_called_by_our_name(hosts, "localhost") {
        return answer(
            StatusCode::FORBIDDEN,
            &json!({"error": "the Host of this request is not this machine"}),
        );
    }
    // Before the body means anything. The comparison takes the same time wherever it fails.
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    if !shared.token.matches(given) {
        return answer(StatusCode::UNAUTHORIZED, &json!({"error": "the token is not the one in admin.json"}));
    }
    let Ok(request) = serde_json::from_slice::<Value>(&body) else {
        return answer(StatusCode::BAD_REQUEST, &json!({"error": "the request is not JSON"}));
    };
    match shared.administrator.call(request).await {
        Ok(value) => answer(StatusCode::OK, &value),
        Err(sentence) => answer(StatusCode::CONFLICT, &json!({"error": sentence})),
    }
}

fn answer(status: StatusCode, body: &Value) -> Response {
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
    (status, headers, body.to_string()).into_response()
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures_util::future::BoxFuture;

    use super::*;
    use crate::admin::Endpoint;
    use crate::admin::client::{AdminError, call};

    #[derive(Debug)]
    struct Echo;

    impl Administrator for Echo {
        fn call(&self, request: Value) -> BoxFuture<'_, Result<Value, String>> {
            Box::pin(async move {
                if request == json!("fail") { Err("it failed".to_owned()) } else { Ok(request) }
            })
        }
    }

    async fn endpoint() -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(listener, Arc::new(Echo), Secret::new("right"), pending(), pending()));
        Endpoint { address, token: Secret::new("right"), process: 1 }
    }

    #[tokio::test]
    async fn only_the_token_opens_it() {
        let endpoint = endpoint().await;
        assert_eq!(call(&endpoint, &json!({"a": 1})).await.unwrap(), json!({"a": 1}));
        for wrong in ["", "righ", "rightt", "wrong"] {
            let wrong = Endpoint { token: Secret::new(wrong), ..endpoint.clone() };
            assert!(matches!(call(&wrong, &json!({"a": 1})).await, Err(AdminError::NotOurs)), "{wrong:?}");
        }
    }

    #[tokio::test]
    async fn a_refusal_is_the_sentence_that_was_given() {
        let endpoint = endpoint().await;
        let refused = call(&endpoint, &json!("fail")).await;
        assert!(matches!(refused, Err(AdminError::Refused(why)) if why == "it failed"));
    }

    #[tokio::test]
    async fn nobody_there_is_told_apart() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let gone = Endpoint { address, token: Secret::new("right"), process: 1 };
        assert!(matches!(call(&gone, &json!(1)).await, Err(AdminError::NoAnswer(_))));
    }
}
