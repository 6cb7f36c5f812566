//! A server that webhooks point to.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use serde_json::Value;
use tokio::sync::mpsc;

use super::redsyn::soon;

/// A server that takes pushes, and says what it is told to.
#[derive(Debug)]
pub struct Receiver {
    pub url: String,
    says: Arc<Mutex<VecDeque<u16>>>,
    arrived: mpsc::UnboundedReceiver<Arrived>,
}

#[derive(Debug)]
pub struct Arrived {
    pub headers: HeaderMap,
    pub raw: Bytes,
    pub body: Value,
}

impl Arrived {
    pub fn id(&self) -> &str {
        self.body["id"].as_str().unwrap()
    }
}

impl Receiver {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let (tell, arrived) = mpsc::unbounded_channel();
        let says: Arc<Mutex<VecDeque<u16>>> = Arc::default();
        let script = Arc::clone(&says);
        let app = axum::Router::new().fallback(move |headers: HeaderMap, raw: Bytes| {
            // What follows a redirect asks for another page, without a body.
            let body = serde_json::from_slice(&raw).unwrap_or_default();
            tell.send(Arrived { headers, raw, body }).unwrap();
            let status = script.lock().unwrap().pop_front().unwrap_or(204);
            async move {
                if status == 0 {
                    return std::future::pending().await;
                }
                let location = [("location", "/elsewhere")];
                (StatusCode::from_u16(status).unwrap(), location, "x".repeat(100_000)).into_response()
            }
        });
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, says, arrived }
    }

    pub fn say(&self, statuses: &[u16]) {
        self.says.lock().unwrap().extend(statuses);
    }

    pub async fn next(&mut self) -> Arrived {
        soon(self.arrived.recv()).await.unwrap()
    }

    pub fn nothing_came(&mut self) -> bool {
        self.arrived.try_recv().is_err()
    }
}
