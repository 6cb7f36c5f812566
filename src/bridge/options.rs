//! What a sender may say for the journey, in the additive field `redsyn`.

use serde_json::Value;

use super::mapping::CannotLeave;
use crate::config::redsyn::Encrypt;
use crate::proto::redsyn::ids::TTL_MAX_SECS;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Seconds.
    pub ttl: Option<u64>,
    pub refs: Vec<Value>,
    /// The name of an upload: its SHA-256 in hex.
    pub files: Option<String>,
    pub encrypt: Option<Encrypt>,
}

impl Options {
    /// # Errors
    /// When a field is not what it should be.
    pub fn parse(redsyn: Option<&Value>) -> Result<Self, CannotLeave> {
        let given = |name: &str| redsyn.and_then(|redsyn| redsyn.get(name)).filter(|value| !value.is_null());
        let ttl = match given("ttl") {
            None => None,
            Some(ttl) => {
                let secs = ttl.as_u64().filter(|ttl| *ttl > 0);
                let secs = secs.ok_or(CannotLeave::Options("ttl is whole seconds above 0"))?;
                // No plan grants more (spec, «Límites»), and what crossed is remembered for no longer.
                Some(secs.min(TTL_MAX_SECS))
            }
        };
        let refs = match given("refs") {
            None => Vec::new(),
            Some(Value::Array(refs)) if refs.iter().all(Value::is_object) => refs.clone(),
            Some(_) => return Err(CannotLeave::Options("refs is a list of objects")),
        };
        let files = match given("files").map(Value::as_str) {
            None => None,
            Some(Some(name)) => Some(name.to_ascii_lowercase()),
            Some(None) => {
                return Err(CannotLeave::Options("files is the name that PUT /bridge/v1/files gave"));
            }
        };
        let encrypt = match given("encrypt").map(|word| word.as_str().and_then(Encrypt::parse)) {
            None => None,
            Some(Some(encrypt)) => Some(encrypt),
            // To ignore it could send in the open what was meant to be sealed.
            Some(None) => return Err(CannotLeave::Options("encrypt is prefer, require or never")),
        };
        Ok(Self { ttl, refs, files, encrypt })
    }

    /// When this message is sealed, in a node with the configuration `configured`.
    ///
    /// # Errors
    /// When the message asks for less than the configuration requires.
    pub fn sealing(&self, configured: Encrypt) -> Result<Encrypt, CannotLeave> {
        match (configured, self.encrypt) {
            (Encrypt::Require, Some(Encrypt::Prefer | Encrypt::Never)) => {
                Err(CannotLeave::Options("encrypt cannot ask for less than the configuration's `require`"))
            }
            (configured, asked) => Ok(asked.unwrap_or(configured)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn options_are_checked() {
        for bad in [
            json!({"ttl": 0}),
            json!({"refs": "x"}),
            json!({"files": ["x"]}),
            json!({"encrypt": "perhaps"}),
            json!({"encrypt": true}),
        ] {
            assert!(Options::parse(Some(&bad)).is_err(), "{bad}");
        }
        assert_eq!(Options::parse(Some(&json!({"ttl": u64::MAX}))).unwrap().ttl, Some(TTL_MAX_SECS));
        assert_eq!(Options::parse(Some(&json!({"ttl": 60}))).unwrap().ttl, Some(60));
        assert_eq!(Options::parse(Some(&json!({"files": "AB"}))).unwrap().files, Some("ab".into()));
        let nothing = json!({"ttl": null, "refs": null, "files": null, "encrypt": null});
        assert_eq!(Options::parse(Some(&nothing)).unwrap(), Options::default());
        assert_eq!(Options::parse(None).unwrap(), Options::default());
    }

    #[test]
    fn a_message_may_ask_for_more_than_the_configuration_and_not_for_less() {
        let asking = |encrypt| Options { encrypt, ..Options::default() };
        assert_eq!(asking(None).sealing(Encrypt::Prefer), Ok(Encrypt::Prefer));
        assert_eq!(asking(Some(Encrypt::Require)).sealing(Encrypt::Never), Ok(Encrypt::Require));
        assert_eq!(asking(Some(Encrypt::Never)).sealing(Encrypt::Prefer), Ok(Encrypt::Never));
        assert!(asking(Some(Encrypt::Never)).sealing(Encrypt::Require).is_err());
        assert!(asking(Some(Encrypt::Prefer)).sealing(Encrypt::Require).is_err());
    }
}
