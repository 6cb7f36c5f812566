//! Decisions about keys, told in the words of a person.

use serde_json::{Value, json};

use super::show::public;
use super::{Operator, Whom, store};
use crate::proto::redsyn::address::Person;
use crate::store::bridge::{Acceptance, Confirmation, Released};

impl Operator {
    pub(super) async fn accept(&self, person: Person, fingerprint: Option<String>) -> Result<Value, String> {
        match self.decisions.accept(person.clone(), fingerprint).await.map_err(super::store)? {
            Acceptance::Accepted { fingerprint, released } => {
                Ok(json!({"person": person, "fingerprint": fingerprint, "released": counts(released)}))
            }
            Acceptance::NothingWaits => Err(format!(
                "no mail waits for a key of {person}; `redsyn-bridge held` shows what waits and for what"
            )),
            Acceptance::WhichOne(offered) => Err(format!(
                "say which key of {person} to accept: mail waits for {}; compare the fingerprint with {person} first",
                offered.join(" and ")
            )),
        }
    }

    pub(super) async fn reject(&self, person: Person) -> Result<Value, String> {
        let rejected = self.decisions.reject(person.clone()).await.map_err(store)?;
        if rejected == Released::default() {
            return Err(format!("nothing of or for {person} is held"));
        }
        Ok(json!({"person": person, "rejected": counts(rejected)}))
    }

    pub(super) async fn confirm(&self, person: Person, fingerprint: String) -> Result<Value, String> {
        match self.decisions.confirm(person.clone(), fingerprint).await.map_err(store)? {
            Confirmation::Confirmed { fingerprint, released } => {
                let released = counts(released);
                Ok(
                    json!({"person": person, "fingerprint": fingerprint, "verified": true, "released": released}),
                )
            }
            Confirmation::Unknown(known) if known.is_empty() => {
                Err(format!("no key of {person} is known here yet"))
            }
            Confirmation::Unknown(known) => {
                Err(format!("that is no key of {person} here: known is {}", known.join(" and ")))
            }
        }
    }

    pub(super) async fn allow_plain(&self, who: Whom) -> Result<Value, String> {
        let (person, address) = match who {
            Whom::Person(person) => (person, None),
            Whom::Address(address) => (address.person(), Some(address)),
        };
        let name = address.as_ref().map_or_else(|| person.to_string(), ToString::to_string);
        match self.decisions.allow_plain(person, address).await.map_err(store)? {
            Some(released) => Ok(json!({"who": name, "released": counts(released)})),
            None => Err(format!("{name} never had a key here: plain text goes there anyway")),
        }
    }

    pub(super) async fn allow_unsigned(&self, person: Person) -> Result<Value, String> {
        let released = self.decisions.allow_unsigned(person.clone()).await.map_err(store)?;
        Ok(json!({"person": person, "released": counts(released)}))
    }

    /// New keys are kept first and used only when the relay has taken them: others seal for the old ones until then.
    pub(super) async fn keys_rotate(&self) -> Result<Value, String> {
        let has_mail = self.decisions.store.has_mail().await.map_err(store)?;
        if !has_mail && self.keys.current().map_err(|error| error.to_string())?.is_none() {
            return Err("this node has no keys yet: the first start makes them".to_owned());
        }
        let next = self.keys.make_next(&*self.random).map_err(|error| error.to_string())?;
        let mut answer = public(&next);
        let why = match self.control() {
            None => Some("nothing runs: the next start registers them".to_owned()),
            Some(control) => {
                control.keys.set_next(next);
                let introduced = control.link.introduce().await;
                match (control.keys.next(), introduced) {
                    (None, _) => None,
                    (Some(_), Err(error)) => Some(error.to_string()),
                    (Some(_), Ok(())) => Some("the relay did not take them; the log says why".to_owned()),
                }
            }
        };
        if let Some(fields) = answer.as_object_mut() {
            fields.insert("rotated".into(), json!(why.is_none()));
            fields.insert("why".into(), json!(why));
        }
        Ok(answer)
    }
}

fn counts(released: Released) -> Value {
    json!({"inbound": released.inbound, "outbound": released.outbound})
}
