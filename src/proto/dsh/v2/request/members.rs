//! The members of a body, coerced as the reference coerces them. Nothing here may decide what a request means.

use serde_json::Value;

use crate::proto::dsh::error::{ApiError, Code};
use crate::proto::dsh::js;
use crate::proto::dsh::json::{self, JsonText, Members};
use crate::proto::dsh::v1::request;
use crate::proto::dsh::v2::name::Name;

pub(super) struct Body(Members);

impl Body {
    /// `None` when the text is no JSON object.
    pub(super) fn parse(body: &str) -> Option<Self> {
        Members::parse(&json::mended(body)).ok().flatten().map(Self)
    }

    /// A body that must be an object and may not name another agent.
    pub(super) fn by(body: &str, agent: &Name) -> Result<Self, ApiError> {
        let body = Self::object(body)?;
        body.check_agent(agent)?;
        Ok(body)
    }

    pub(super) fn object(body: &str) -> Result<Self, ApiError> {
        Self::parse(body).ok_or_else(|| ApiError::bad_request("body must be a JSON object"))
    }

    pub(super) fn check_agent(&self, agent: &Name) -> Result<(), ApiError> {
        match self.value("agent") {
            Some(given) if Name::of(&js::string_of(&given)) != *agent => {
                Err(ApiError::new(Code::Forbidden, "agent does not match authenticated identity"))
            }
            _ => Ok(()),
        }
    }

    /// What is there, `null` included. A value that is nested too deeply for a tree counts as `null`.
    pub(super) fn value(&self, name: &str) -> Option<Value> {
        self.0.get(name).map(|value| value.to_value().unwrap_or_default())
    }

    /// The additive field, as in the first generation.
    pub(super) fn redsyn(&self) -> Result<Option<Value>, ApiError> {
        request::redsyn(&self.0)
    }

    /// `Number(x)`.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.value(name).map(|value| js::number_of(&value))
    }

    /// `String(x || '')`.
    pub(super) fn text(&self, name: &str) -> String {
        let value = self.0.get(name).filter(|value| js::truthy(value)).and_then(JsonText::to_value);
        value.map(|value| js::string_of(&value)).unwrap_or_default()
    }

    /// `String(x ?? '')`.
    pub(super) fn given(&self, name: &str) -> String {
        let value = self.0.given(name).and_then(JsonText::to_value);
        value.map(|value| js::string_of(&value)).unwrap_or_default()
    }

    pub(super) fn trimmed(&self, name: &str) -> String {
        js::trim(&self.text(name)).to_owned()
    }

    /// Trimmed and lower-cased.
    pub(super) fn word(&self, name: &str) -> String {
        self.trimmed(name).to_lowercase()
    }
}
