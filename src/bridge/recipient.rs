//! Whom an outbound message is sealed for, and when it may go in the open: sealed once, sealed always,
//! and never for a key that is not the pinned one.

use super::outbound::{Outbound, Outcome};
use crate::config::redsyn::Encrypt;
use crate::crypto::enc_key::EncKey;
use crate::crypto::sign::VerifyingKey;
use crate::proto::redsyn::address::AgentAddress;
use crate::proto::redsyn::keys::{KeysError, NodeKeys};
use crate::redsyn_client::CallError;
use crate::store::StoreError;
use crate::store::bridge::{OutboxEntry, PinState};

impl Outbound {
    /// # Errors
    /// When the relay does not say.
    pub(super) async fn recipient(
        &self,
        entry: &OutboxEntry,
        wish: Option<Encrypt>,
    ) -> Result<Recipient, CallError> {
        if let Some(reply_key) = &entry.reply_key {
            // It came inside the sealed and signed request: nobody but its sender can have put it there.
            return Ok(reply_key.parse().map_or_else(
                |error| {
                    let why = format!("the request's reply_key is no key: {error}");
                    Recipient::Nobody(Outcome::Failed { code: "bad_key", why })
                },
                Recipient::Key,
            ));
        }
        let encrypt = wish.unwrap_or(self.encrypt);
        let Some(address) = entry.remote.agent() else {
            return Ok(match encrypt {
                Encrypt::Require => {
                    let why =
                        "an event goes to many and cannot be sealed, and `encrypt` is `require`".to_owned();
                    Recipient::Nobody(Outcome::Failed { code: "no_key", why })
                }
                Encrypt::Prefer | Encrypt::Never => Recipient::Open,
            });
        };
        let recipient = match encrypt {
            Encrypt::Never => self.keyless(address, encrypt).await,
            Encrypt::Prefer | Encrypt::Require => match self.lookups.key(&self.client, address).await? {
                Some(keys) => self.checked(entry, address, keys).await,
                None => {
                    self.link.found_no_key().await;
                    if encrypt == Encrypt::Require {
                        return Ok(Recipient::Nobody(self.unsealable(address).await?));
                    }
                    self.keyless(address, encrypt).await
                }
            },
        };
        Ok(match recipient {
            Ok(recipient) => recipient,
            // What the bridge itself says ("the signature does not hold") holds no content and waits for nobody.
            Err(NotYet::Held(..)) if entry.local_id.is_none() && encrypt != Encrypt::Require => {
                Recipient::Open
            }
            Err(NotYet::Held(why, key)) => Recipient::Nobody(Outcome::Hold { why, key }),
            Err(NotYet::Store(error)) => {
                Recipient::Nobody(Outcome::Later { why: error.to_string(), asked: None })
            }
        })
    }

    /// The key a relay gives, if it holds and belongs to a signing key that is known or the person's first.
    async fn checked(
        &self,
        entry: &OutboxEntry,
        address: &AgentAddress,
        keys: Result<NodeKeys, KeysError>,
    ) -> Result<Recipient, NotYet> {
        let keys = keys.map_err(|error| {
            NotYet::Held(format!("the relay's key for {address} does not hold: {error}"), None)
        })?;
        if let Some(pins) = &entry.sealed_for
            && matches!(pins.state(&keys.signing_key.to_string()), PinState::Known { .. })
        {
            return Ok(Recipient::Key(keys.enc_key));
        }
        let fingerprint = keys.signing_key.fingerprint();
        let now = self.clock.now();
        match self.store.pin_recipient(address.clone(), keys.signing_key, now).await? {
            PinState::Other => {
                let person = address.person();
                let why = format!("{person} has another key than the pinned one: {fingerprint}");
                Err(NotYet::Held(why, Some(keys.signing_key)))
            }
            PinState::First => {
                tracing::info!(person = %address.person(), fingerprint, "pin_first_use");
                Ok(Recipient::Key(keys.enc_key))
            }
            PinState::Known { .. } => Ok(Recipient::Key(keys.enc_key)),
        }
    }

    /// Why nothing can be sealed for `address`: it has no key, or there is no such agent, for which the relay gives the
    /// same answer when it is asked for the key.
    async fn unsealable(&self, address: &AgentAddress) -> Result<Outcome, CallError> {
        match self.client.get(&format!("/agents/{address}")).await {
            Ok(_) => {
                let why = format!("{address} has no key to seal for, and redsyn.encrypt is `require`");
                Ok(Outcome::Failed { code: "no_key", why })
            }
            Err(CallError::Refused(refusal)) if refusal.status() == 404 => {
                Ok(Outcome::Failed { code: "no_such_agent", why: refusal.body.error })
            }
            Err(error) => Err(error),
        }
    }

    async fn keyless(&self, address: &AgentAddress, encrypt: Encrypt) -> Result<Recipient, NotYet> {
        if self.store.was_sealed(address.clone()).await? {
            let now = match encrypt {
                Encrypt::Never => "redsyn.encrypt is `never` now",
                Encrypt::Prefer | Encrypt::Require => "has none now",
            };
            let why = format!("{address} had a key and {now}: plain text waits for a person's consent");
            return Err(NotYet::Held(why, None));
        }
        Ok(Recipient::Open)
    }
}

/// Whom an entry is sealed for.
pub(super) enum Recipient {
    Key(EncKey),
    /// It goes in the open.
    Open,
    /// It does not go now.
    Nobody(Outcome),
}

/// Why an entry waits.
enum NotYet {
    /// Until a person decides; about the key that the relay gave, if it did.
    Held(String, Option<VerifyingKey>),
    Store(StoreError),
}

impl From<StoreError> for NotYet {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
