//! The operator's door of a running relay: one call, on loopback alone, for whoever can read its token.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use super::extract::bearer;
use crate::crypto::secret::Secret;
use crate::domain::nearby::is_called_by_our_name;
use crate::relay::admin::AdminCommand;
use crate::relay::{RelayError, Service};

const PATH: &str = "/admin";
/// A command is a few texts.
const COMMAND_LIMIT: usize = 64 * 1024;
/// A list of everybody on a large relay.
const ANSWER_LIMIT: usize = 64 * 1024 * 1024;

#[derive(Clone, Debug)]
struct Door {
    service: Arc<Service>,
    token: Secret,
}

/// Serves the door until `stop` completes.
///
/// # Errors
/// When the socket fails.
pub async fn serve_admin(
    listener: TcpListener,
    service: Arc<Service>,
    token: Secret,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let router = Router::new()
        .route(PATH, post(command))
        .fallback(super::answer::no_such_call)
        .with_state(Door { service, token });
    axum::serve(listener, router).with_graceful_shutdown(stop).await
}

async fn command(State(door): State<Door>, request: Request) -> Response {
    match run(&door, request).await {
        Ok(value) => axum::Json(value).into_response(),
        Err(error) => error.into_response(),
    }
}

async fn run(door: &Door, request: Request) -> Result<Value, RelayError> {
    let hosts = request.headers().get_all(HOST).iter().map(HeaderValue::as_bytes);
    if !is_called_by_our_name(hosts, "localhost") {
        return Err(RelayError::NoSuchCall);
    }
    let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = header.and_then(bearer).ok_or(RelayError::NoToken)?;
    if !door.token.matches(token) {
        return Err(RelayError::UnknownToken);
    }
    let body = Limited::new(request.into_body(), COMMAND_LIMIT).collect().await;
    let body = body.map_err(|_| RelayError::NotJson("the command did not arrive whole".into()))?.to_bytes();
    let command: AdminCommand =
        serde_json::from_slice(&body).map_err(|error| RelayError::NotJson(error.to_string()))?;
    door.service.administer(command).await
}

/// Sends a command through the door of the relay that listens at `address`.
///
/// # Errors
/// Its refusal, or that nobody answered.
pub async fn ask_admin(address: SocketAddr, token: &Secret, command: &AdminCommand) -> Result<Value, String> {
    let no_answer = |error: &dyn std::fmt::Display| format!("the running relay does not answer: {error}");
    let stream = TcpStream::connect(address).await.map_err(|error| no_answer(&error))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| no_answer(&error))?;
    let body = serde_json::to_vec(command).map_err(|error| error.to_string())?;
    let request = hyper::Request::post(PATH)
        .header(HOST, address.to_string())
        .header(AUTHORIZATION, format!("Bearer {}", token.expose()))
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| error.to_string())?;
    let exchange = async {
        let answer = sender.send_request(request).await.map_err(|error| no_answer(&error))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_LIMIT).collect().await;
        let body = body.map_err(|error| no_answer(&error))?.to_bytes();
        let value = serde_json::from_slice(&body).unwrap_or_else(|_| json!({}));
        Ok::<_, String>((status, value))
    };
    let (status, value): (StatusCode, Value) = tokio::select! {
        // The connection moves the bytes; it has no word of its own before the exchange ends.
        answered = exchange => answered?,
        ended = connection => return Err(no_answer(&format!("{ended:?}"))),
    };
    if status.is_success() {
        return Ok(value);
    }
    Err(value.get("error").and_then(Value::as_str).unwrap_or("the running relay refused").to_owned())
}
