//! The JSON inside a sealed message: what travels in the open for messages that are not sealed.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::json::{self, JsonError};

/// `{"body", "refs", "reply_key"}`. Fields nobody knows are ignored; it need not be canonical.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct SealedContent {
    pub body: Value,
    #[serde(default, deserialize_with = "null_is_default")]
    pub refs: Vec<Value>,
    /// The enc_key that progress and replies are sealed for; empty when they may come back in the open.
    #[serde(default, deserialize_with = "null_is_default")]
    pub reply_key: String,
}

impl SealedContent {
    /// Reads an opened plaintext, as strictly as anything signed.
    pub fn parse(plaintext: &[u8]) -> Result<Self, JsonError> {
        Ok(Self::deserialize(json::parse(plaintext)?)?)
    }

    /// The plaintext to seal.
    pub fn to_bytes(&self) -> Result<Vec<u8>, JsonError> {
        Ok(serde_json::to_vec(self)?)
    }
}

impl std::fmt::Debug for SealedContent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealedContent(***)")
    }
}

fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_missing_is_empty_and_what_is_unknown_ignored() {
        let content =
            SealedContent::parse(br#"{"later":[1], "reply_key":null, "body":{"type":"text/plain"}}"#);
        let content = content.unwrap();
        assert_eq!(content.body, json!({"type": "text/plain"}));
        assert!(content.refs.is_empty());
        assert_eq!(content.reply_key, "");
        assert_eq!(SealedContent::parse(&content.to_bytes().unwrap()).unwrap(), content);
    }

    #[test]
    fn a_body_is_required_and_names_appear_once() {
        for bad in [r#"{"refs":[]}"#, "[]", r#"{"body":1,"body":2}"#, r#"{"body":1,"refs":"x"}"#, ""] {
            assert!(SealedContent::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
