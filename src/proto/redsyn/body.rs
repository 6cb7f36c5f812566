//! The body of an envelope: text, JSON, or sealed (spec, «El sobre» and «Cifrado de extremo a extremo»).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::ids::BODY_LIMIT;
use crate::crypto::seal::Enc;

const TEXT: &str = "text/plain";
const JSON: &str = "application/json";
const ENCRYPTED: &str = "application/redsyn+encrypted";

/// A body whose shape has been checked. It keeps the JSON that arrived, since signatures cover every field of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Body(Value);

/// What a body says.
#[derive(Clone, Debug, PartialEq)]
pub enum BodyView<'a> {
    Text(&'a str),
    Json(&'a Value),
    Encrypted(Enc),
}

/// Why a body is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    #[error("body must be an object")]
    NotAnObject,
    #[error("a text/plain body needs text")]
    NoText,
    #[error("an application/json body needs data")]
    NoData,
    #[error("an encrypted body needs enc with v 1, alg, epk, nonce, ct and files_nonce: {0}")]
    BadEnc(String),
    #[error("body.type must be text/plain, application/json or application/redsyn+encrypted")]
    UnknownType,
    #[error("body is over 64 KB")]
    TooLarge,
}

impl Body {
    pub fn text(text: impl Into<String>) -> Self {
        Self(json!({"type": TEXT, "text": text.into()}))
    }

    pub fn json(data: Value) -> Self {
        Self(json!({"type": JSON, "data": data}))
    }

    /// # Errors
    /// When `enc` cannot be written as JSON, which does not happen for one this project made.
    pub fn encrypted(enc: &Enc) -> Result<Self, serde_json::Error> {
        Ok(Self(json!({"type": ENCRYPTED, "enc": serde_json::to_value(enc)?})))
    }

    /// # Errors
    /// When the value is not a body of one of the three types.
    pub fn parse(value: Value) -> Result<Self, BodyError> {
        view(&value)?;
        Ok(Self(value))
    }

    pub fn view(&self) -> BodyView<'_> {
        // `parse` and the constructors let nothing else in.
        view(&self.0).unwrap_or(BodyView::Json(&Value::Null))
    }

    pub fn is_encrypted(&self) -> bool {
        self.0.get("type").and_then(Value::as_str) == Some(ENCRYPTED)
    }

    pub fn as_value(&self) -> &Value {
        &self.0
    }

    pub fn into_value(self) -> Value {
        self.0
    }

    /// # Errors
    /// When the encoded body passes 64 KB (reading A23).
    pub fn check_size(&self) -> Result<(), BodyError> {
        if self.0.to_string().len() > BODY_LIMIT { Err(BodyError::TooLarge) } else { Ok(()) }
    }
}

fn view(value: &Value) -> Result<BodyView<'_>, BodyError> {
    let object = value.as_object().ok_or(BodyError::NotAnObject)?;
    match object.get("type").and_then(Value::as_str) {
        Some(TEXT) => object.get("text").and_then(Value::as_str).map(BodyView::Text).ok_or(BodyError::NoText),
        Some(JSON) => object.get("data").map(BodyView::Json).ok_or(BodyError::NoData),
        Some(ENCRYPTED) => {
            let enc = object.get("enc").ok_or_else(|| BodyError::BadEnc("enc is missing".into()))?;
            let enc = Enc::deserialize(enc)
                .map_err(|_| BodyError::BadEnc("one is missing or of another type".into()))?;
            Ok(BodyView::Encrypted(enc))
        }
        _ => Err(BodyError::UnknownType),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_needs_its_field() {
        let refused = [
            (json!("text"), BodyError::NotAnObject),
            (json!({"type": "text/plain"}), BodyError::NoText),
            (json!({"type": "text/plain", "text": 1}), BodyError::NoText),
            (json!({"type": "application/json"}), BodyError::NoData),
            (json!({"type": "image/png"}), BodyError::UnknownType),
            (json!({}), BodyError::UnknownType),
        ];
        for (value, error) in refused {
            assert_eq!(Body::parse(value), Err(error));
        }
        assert!(matches!(Body::parse(json!({"type": ENCRYPTED})), Err(BodyError::BadEnc(_))));
        assert_eq!(
            Body::parse(json!({"type": JSON, "data": null})).unwrap().view(),
            BodyView::Json(&Value::Null)
        );
    }

    #[test]
    fn sixty_four_kilobytes_are_measured_on_the_encoded_body() {
        let frame = Body::text("").as_value().to_string().len();
        assert!(Body::text("x".repeat(BODY_LIMIT - frame)).check_size().is_ok());
        assert_eq!(Body::text("x".repeat(BODY_LIMIT - frame + 1)).check_size(), Err(BodyError::TooLarge));
    }
}
