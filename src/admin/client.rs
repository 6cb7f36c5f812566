//! The other end of the admin endpoint: what a command uses.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::Value;

use super::Endpoint;

/// Longer than the longest call to a relay that a command may wait for.
const TIME: Duration = Duration::from_secs(120);

/// Why a call brought nothing.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    #[error("it does not answer: {0}")]
    NoAnswer(String),
    /// Another program has taken the port since.
    #[error("what answers is not the process that wrote admin.json")]
    NotOurs,
    #[error("{0}")]
    Refused(String),
}

/// Sends one request.
///
/// # Errors
/// See [`AdminError`].
pub async fn call(endpoint: &Endpoint, request: &Value) -> Result<Value, AdminError> {
    let failed = |error: reqwest::Error| AdminError::NoAnswer(error.without_url().to_string());
    // The client wants a provider of TLS even for plain HTTP; whoever comes second finds it installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .redirect(reqwest::redirect::Policy::none())
        .timeout(TIME)
        .build()
        .map_err(failed)?;
    let url = format!("http://{}/", endpoint.address);
    let sent = http.post(url).bearer_auth(endpoint.token.expose()).json(request).send().await;
    let answer = sent.map_err(failed)?;
    let status = answer.status();
    let body: Value = answer.json().await.map_err(|_| AdminError::NotOurs)?;
    match status {
        StatusCode::OK => Ok(body),
        StatusCode::CONFLICT | StatusCode::BAD_REQUEST => {
            let why = body.get("error").and_then(Value::as_str).unwrap_or("it gave no reason");
            Err(AdminError::Refused(why.to_owned()))
        }
        _ => Err(AdminError::NotOurs),
    }
}
