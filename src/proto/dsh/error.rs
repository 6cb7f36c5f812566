//! What the API refuses, and how it says so. Codes and statuses are the contract; texts are for people.

use serde::Serialize;

/// The machine-readable codes of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    BadRequest,
    Unauthenticated,
    UnknownAgent,
    UnknownKey,
    Locked,
    Forbidden,
    NoSuchAgent,
    NoSuchMessage,
    NotFound,
    NotLeased,
    LeaseMismatch,
    Conflict,
    TooLarge,
    RateLimited,
    Busy,
}

impl Code {
    /// In the order of the enum.
    pub const ALL: [Self; 15] = [
        Self::BadRequest,
        Self::Unauthenticated,
        Self::UnknownAgent,
        Self::UnknownKey,
        Self::Locked,
        Self::Forbidden,
        Self::NoSuchAgent,
        Self::NoSuchMessage,
        Self::NotFound,
        Self::NotLeased,
        Self::LeaseMismatch,
        Self::Conflict,
        Self::TooLarge,
        Self::RateLimited,
        Self::Busy,
    ];

    pub const fn status(self) -> u16 {
        self.wire().0
    }

    pub const fn name(self) -> &'static str {
        self.wire().1
    }

    /// The one place that ties a code to its status and its name on the wire.
    const fn wire(self) -> (u16, &'static str) {
        match self {
            Self::BadRequest => (400, "bad_request"),
            Self::Unauthenticated => (401, "unauthenticated"),
            Self::UnknownAgent => (401, "unknown_agent"),
            Self::UnknownKey => (401, "unknown_key"),
            Self::Locked => (403, "locked"),
            Self::Forbidden => (403, "forbidden"),
            Self::NoSuchAgent => (404, "no_such_agent"),
            Self::NoSuchMessage => (404, "no_such_message"),
            Self::NotFound => (404, "not_found"),
            Self::NotLeased => (409, "not_leased"),
            Self::LeaseMismatch => (409, "lease_mismatch"),
            Self::Conflict => (409, "conflict"),
            Self::TooLarge => (413, "too_large"),
            Self::RateLimited => (429, "rate_limited"),
            Self::Busy => (503, "busy"),
        }
    }
}

/// An answer that says no.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    code: Code,
    message: String,
}

#[derive(Serialize)]
struct Body<'a> {
    error: Detail<'a>,
}

#[derive(Serialize)]
struct Detail<'a> {
    code: &'static str,
    message: &'a str,
}

impl ApiError {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(Code::BadRequest, message)
    }

    pub fn unauthenticated(message: impl Into<String>) -> Self {
        Self::new(Code::Unauthenticated, message)
    }

    pub fn no_such_agent() -> Self {
        Self::new(Code::NoSuchAgent, "the recipient has never registered")
    }

    pub fn no_such_message() -> Self {
        Self::new(Code::NoSuchMessage, "message id not found (expired or unknown)")
    }

    pub fn not_found(method: &str, path: &str) -> Self {
        Self::new(Code::NotFound, format!("no route {method} {path}"))
    }

    /// Trouble of our own. What it was goes to the log, never to the client.
    pub fn busy() -> Self {
        Self::new(Code::Busy, "the broker cannot do this right now; try again")
    }

    pub const fn code(&self) -> Code {
        self.code
    }

    pub const fn status(&self) -> u16 {
        self.code.status()
    }

    pub const fn name(&self) -> &'static str {
        self.code.name()
    }

    /// What `serde` writes as the body of the answer.
    pub fn body(&self) -> impl Serialize + '_ {
        Body { error: Detail { code: self.name(), message: &self.message } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_stands_at_its_place() {
        for (at, code) in Code::ALL.into_iter().enumerate() {
            assert_eq!(code as usize, at);
        }
        assert_eq!(Code::Busy as usize + 1, Code::ALL.len(), "the last one");
    }

    #[test]
    fn the_body_has_a_code_and_a_text() {
        let error = ApiError::bad_request("to is required");
        assert_eq!(error.status(), 400);
        assert_eq!(
            serde_json::to_string(&error.body()).unwrap(),
            r#"{"error":{"code":"bad_request","message":"to is required"}}"#
        );
    }
}
