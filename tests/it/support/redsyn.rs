//! A relay seen from outside: nodes with tokens, answers, and the envelopes that tests send.

use std::future::Future;
use std::time::Duration;

use redsyn_bridge::crypto::sign::SigningKey;
use redsyn_bridge::proto::redsyn::signed;
use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::{Map, Value, json};

/// Longer than any answer takes that does come.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for what must happen soon by the real clock; the relay's own stands still.
pub async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("an answer in time")
}

/// One node: a base URL and a token.
#[derive(Clone, Debug)]
pub struct Node {
    http: reqwest::Client,
    pub base_url: String,
    pub token: String,
}

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Reply {
    /// The body, when the status is the one expected. Errors must have the protocol's form.
    #[track_caller]
    pub fn is(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        if status >= 400 {
            assert_eq!(self.body["status"], status);
            assert!(self.body["error"].as_str().is_some_and(|text| !text.is_empty()), "{}", self.body);
        }
        assert_eq!(self.headers["redsyn-version"], "2026-09-25");
        assert!(self.headers.contains_key("date"));
        self.body
    }

    /// The error's text.
    #[track_caller]
    pub fn refused(self, status: u16) -> String {
        self.is(status)["error"].as_str().unwrap().to_owned()
    }
}

impl Node {
    pub fn new(base_url: &str, token: &str) -> Self {
        // Another test may have done it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        Self { http, base_url: base_url.to_owned(), token: token.to_owned() }
    }

    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base_url)).bearer_auth(&self.token)
    }

    pub async fn send_request(&self, request: reqwest::RequestBuilder) -> Reply {
        soon(async {
            let response = request.send().await.unwrap();
            let (status, headers) = (response.status().as_u16(), response.headers().clone());
            let bytes = response.bytes().await.unwrap();
            let body = if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).unwrap() };
            Reply { status, headers, body }
        })
        .await
    }

    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Reply {
        let mut request = self.request(method, path);
        if let Some(body) = body {
            request = request.json(body);
        }
        self.send_request(request).await
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.call(Method::GET, path, None).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Reply {
        self.call(Method::PUT, path, Some(&body)).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Reply {
        self.call(Method::POST, path, Some(&body)).await
    }

    /// Announces an agent as listening, with `extra` fields.
    pub async fn announce(&self, agent: &str, extra: Value) -> Reply {
        let mut body = json!({"listening": true});
        body.as_object_mut().unwrap().extend(extra.as_object().cloned().unwrap_or_default());
        self.put(&format!("/agents/{agent}"), body).await
    }

    pub async fn send(&self, envelope: &Value) -> Reply {
        self.call(Method::POST, "/messages", Some(envelope)).await
    }

    pub async fn take(&self, agent: &str) -> Vec<Value> {
        self.take_with(agent, "").await
    }

    pub async fn take_with(&self, agent: &str, query: &str) -> Vec<Value> {
        let body = self.get(&format!("/inbox/{agent}?{query}")).await.is(200);
        body["items"].as_array().unwrap().clone()
    }

    /// The ids that a take gives, in order.
    pub async fn take_ids(&self, agent: &str) -> Vec<String> {
        self.take_ids_with(agent, "").await
    }

    pub async fn take_ids_with(&self, agent: &str, query: &str) -> Vec<String> {
        ids(&self.take_with(agent, query).await)
    }

    pub async fn ack(&self, agent: &str, ids: &[&str]) -> Value {
        self.post(&format!("/inbox/{agent}/ack"), json!({"ids": ids})).await.is(200)
    }
}

pub fn ids(items: &[Value]) -> Vec<String> {
    items.iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

pub fn text(text: &str) -> Value {
    json!({"type": "text/plain", "text": text})
}

/// A plain request.
pub fn request(id: &str, from: &str, to: &str) -> Value {
    json!({"v": 1, "id": id, "kind": "request", "from": from, "to": to, "body": text("hi")})
}

pub fn answer(kind: &str, id: &str, from: &str, reply_to: &str) -> Value {
    json!({"v": 1, "id": id, "kind": kind, "from": from, "reply_to": reply_to, "body": text("done")})
}

/// `with(envelope, {"to": …})`: the same with other fields.
pub fn with(mut envelope: Value, fields: Value) -> Value {
    envelope.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    envelope
}

pub fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed(&[seed; 32])
}

/// Signs an envelope; `ts` is `now`, in seconds, unless it has one.
pub fn signed_at(now: i64, key: &SigningKey, envelope: Value) -> Value {
    let Value::Object(mut map) = envelope else { panic!("an envelope is an object") };
    map.entry("ts").or_insert(now.into());
    signed::sign(&mut map, key).unwrap();
    Value::Object(map)
}

/// A body whose seal nobody opens; its shape is right.
pub fn sealed_body() -> Value {
    let epk = redsyn_bridge::crypto::base64url::encode(&P256_POINT);
    let enc = json!({"v": 1, "alg": "P256-HKDF-SHA256-A256GCM", "epk": epk, "nonce": "AAAAAAAAAAAAAAAA",
                     "ct": "AAAAAAAAAAAAAAAAAAAAAAAA", "files_nonce": ""});
    json!({"type": "application/redsyn+encrypted", "enc": enc})
}

/// The generator of P-256, uncompressed: a valid public key.
pub const P256_POINT: [u8; 65] = [
    0x04, 0x6b, 0x17, 0xd1, 0xf2, 0xe1, 0x2c, 0x42, 0x47, 0xf8, 0xbc, 0xe6, 0xe5, 0x63, 0xa4, 0x40, 0xf2,
    0x77, 0x03, 0x7d, 0x81, 0x2d, 0xeb, 0x33, 0xa0, 0xf4, 0xa1, 0x39, 0x45, 0xd8, 0x98, 0xc2, 0x96, 0x4f,
    0xe3, 0x42, 0xe2, 0xfe, 0x1a, 0x7f, 0x9b, 0x8e, 0xe7, 0xeb, 0x4a, 0x7c, 0x0f, 0x9e, 0x16, 0x2b, 0xce,
    0x33, 0x57, 0x6b, 0x31, 0x5e, 0xce, 0xcb, 0xb6, 0x40, 0x68, 0x37, 0xbf, 0x51, 0xf5,
];

/// The fields of an object, for tampering.
pub fn fields(value: &mut Value) -> &mut Map<String, Value> {
    value.as_object_mut().unwrap()
}
