//! Judges a delivered envelope: whom it is for, whose signature it carries, and what is inside its seal.
//! Nothing here writes; what is decided is carried out by `inbound`.

use super::inbound::Inbound;
use super::mapping::Opened;
use super::{archive, spill};
use crate::config::redsyn::{Accept, MappedAgent};
use crate::crypto::seal as sealing;
use crate::crypto::sealed_content::SealedContent;
use crate::crypto::sha256;
use crate::crypto::sign::VerifyingKey;
use crate::domain::clock::Timestamp;
use crate::proto::dsh::names::AgentName;
use crate::proto::redsyn::address::AddressedAgent;
use crate::proto::redsyn::body::{Body, BodyView};
use crate::proto::redsyn::envelope::DeliveredEnvelope;
use crate::proto::redsyn::ids::{Kind, SIGNATURE_WINDOW_SECS, TTL_MAX_SECS};
use crate::proto::redsyn::policy::{Asker, Refused};
use crate::proto::redsyn::signed;
use crate::redsyn_client::CallError;
use crate::store::StoreError;
use crate::store::bridge::{PinState, Pins, WaitsFor};

/// What a sender is told whose seal does not open here.
const CANNOT: &str = "cannot decrypt";

/// What is to be done with a delivered envelope.
pub(super) enum Verdict {
    Deliver {
        signer: Option<(VerifyingKey, bool)>,
        opened: Box<Opened>,
    },
    Refuse {
        why: String,
    },
    /// Until a person decides about the key that it was signed with, or about unsigned mail.
    Hold {
        why: String,
        key: Option<VerifyingKey>,
        waits_for: WaitsFor,
    },
    /// A failure of our own: neither keep nor ack; the lease brings it back.
    Leave {
        why: StoreError,
    },
    /// The relay does not give what belongs to it: the same, for this message and what follows it.
    Later {
        why: CallError,
    },
}

impl Inbound {
    /// `pins` are the sender's; whoever keeps the message looks at them again.
    pub(super) async fn judge(
        &self,
        agent: &AgentName,
        mapped: &MappedAgent,
        envelope: &DeliveredEnvelope,
        pins: &Pins,
    ) -> Verdict {
        let refuse = |why: &str| Verdict::Refuse { why: why.to_owned() };
        if !is_for(mapped, envelope) {
            return refuse("it is addressed to somebody else");
        }
        let signer = match self.signer(mapped, envelope, pins).await {
            Ok(signer) => signer,
            Err(verdict) => return verdict,
        };
        if envelope.kind == Kind::Request
            && let Err(refused) = allowed(mapped, envelope, signer.is_some())
        {
            return Verdict::Refuse { why: format!("{} {refused}", mapped.address) };
        }
        // Whoever may do anything here is somebody whose fingerprint a person has compared.
        if envelope.kind == Kind::Request
            && mapped.policy.full_trust
            && let Some((key, false)) = signer
        {
            let (person, fingerprint) = (envelope.from.agent.person(), key.fingerprint());
            let why = format!(
                "{} has `trust: full`, and nobody has confirmed the key of {person}: {fingerprint}",
                mapped.address
            );
            return Verdict::Hold { why, key: Some(key), waits_for: WaitsFor::Confirmation };
        }
        let mut opened = match self.open(envelope) {
            Ok(opened) => opened,
            Err(why) => return Verdict::Refuse { why },
        };
        opened.zip = match self.files(agent, envelope).await {
            Ok(zip) => zip,
            Err(verdict) => return verdict,
        };
        if let Some(zip) = opened.zip.as_deref().filter(|zip| archive::is_zip(zip))
            && let Err(error) = archive::check(zip)
        {
            return Verdict::Refuse { why: format!("its files are not taken: {error}") };
        }
        if let Err(why) = spill::put_back(&mut opened) {
            return Verdict::Refuse { why };
        }
        Verdict::Deliver { signer, opened: Box::new(opened) }
    }

    /// The zip in the clear. Fetched before the ack, since the relay deletes delivered files; that of held mail may be
    /// here already.
    async fn files(
        &self,
        agent: &AgentName,
        envelope: &DeliveredEnvelope,
    ) -> Result<Option<Vec<u8>>, Verdict> {
        let Some(info) = &envelope.files else { return Ok(None) };
        let refuse = |why: String| Verdict::Refuse { why };
        let held = self.store.held_zip(agent.clone(), envelope.id.clone()).await;
        let travelled = match held.map_err(|why| Verdict::Leave { why })? {
            Some(held) => held,
            None => self.client.files(&envelope.id).await.map_err(|error| match error.status() {
                Some(404) => refuse("its files are gone from the relay".to_owned()),
                _ => Verdict::Later { why: error },
            })?,
        };
        if sha256::hex(&travelled) != info.sha256 {
            return Err(refuse("its files are not the ones that were sent".to_owned()));
        }
        let BodyView::Encrypted(enc) = envelope.body.view() else { return Ok(Some(travelled)) };
        let (id, kind) = (envelope.id.as_str(), envelope.kind.as_str());
        let zip = self
            .keys
            .open(|key| sealing::open_files(key, id, kind, &enc, &travelled))
            .map_err(|error| refuse(format!("{CANNOT}: its files: {error}")))?;
        Ok(Some(zip.to_vec()))
    }

    /// The verified signing key and whether a person has confirmed it; `None` for mail that may be unsigned.
    async fn signer(
        &self,
        mapped: &MappedAgent,
        envelope: &DeliveredEnvelope,
        pins: &Pins,
    ) -> Result<Option<(VerifyingKey, bool)>, Verdict> {
        let refuse = |why: &str| Verdict::Refuse { why: why.to_owned() };
        let leave = |why: StoreError| Verdict::Leave { why };
        let person = envelope.from.agent.person();
        if !envelope.has_signature() {
            if is_relay_notice(envelope) {
                return Ok(None);
            }
            if mapped.accept != Accept::Any && envelope.kind == Kind::Request {
                return Err(refuse("only signed requests are taken here"));
            }
            // Our own person's key is the one we know from the start.
            let is_own = person == mapped.address.person();
            if self.store.must_sign(person.clone(), is_own).await.map_err(leave)? {
                let why = format!("{person} has a pinned key and sends unsigned");
                return Err(Verdict::Hold { why, key: None, waits_for: WaitsFor::Acceptance });
            }
            return Ok(None);
        }
        let signer = signed::check_delivered(envelope.raw())
            .map_err(|error| refuse(&format!("the signature does not hold: {error}")))?;
        if !is_timely(envelope.ts, self.client.relay_now()) {
            return Err(refuse("its signature is older than any message can be, or from the future"));
        }
        match pins.state(&signer.key.to_string()) {
            PinState::First => Ok(Some((signer.key, false))),
            PinState::Known { verified } => Ok(Some((signer.key, verified))),
            PinState::Other => {
                let fingerprint = signer.key.fingerprint();
                Err(Verdict::Hold {
                    why: format!("{person} has another key than the pinned one: {fingerprint}"),
                    key: Some(signer.key),
                    waits_for: WaitsFor::Acceptance,
                })
            }
        }
    }

    fn open(&self, envelope: &DeliveredEnvelope) -> Result<Opened, String> {
        let BodyView::Encrypted(enc) = envelope.body.view() else {
            return Ok(Opened {
                body: envelope.body.clone(),
                refs: envelope.refs.clone(),
                reply_key: None,
                encrypted: false,
                zip: None,
            });
        };
        let plaintext = self
            .keys
            .open(|key| sealing::open(key, envelope.id.as_str(), envelope.kind.as_str(), &enc))
            .map_err(|error| format!("{CANNOT}: {error}"))?;
        let content = SealedContent::parse(&plaintext)
            .map_err(|_| format!("{CANNOT}: what was sealed is not a message"))?;
        let body = Body::parse(content.body).map_err(|error| format!("{CANNOT}: {error}"))?;
        if body.is_encrypted() {
            return Err(format!("{CANNOT}: what was sealed is sealed again"));
        }
        let reply_key = Some(content.reply_key).filter(|key| !key.is_empty());
        Ok(Opened { body, refs: content.refs, reply_key, encrypted: true, zip: None })
    }
}

fn is_for(mapped: &MappedAgent, envelope: &DeliveredEnvelope) -> bool {
    match envelope.to.parse::<AddressedAgent>() {
        Ok(to) => to.agent == mapped.address,
        // Events may name the topic instead of the subscriber, and `to` is not used in answers (spec, «El sobre»):
        // an answer is for whoever asked, which the store knows.
        Err(_) => envelope.kind == Kind::Event || (envelope.kind.is_answer() && envelope.to.is_empty()),
    }
}

/// The policy that was announced, checked again here. Who is in which team only the relay knows: there its word
/// counts.
fn allowed(mapped: &MappedAgent, envelope: &DeliveredEnvelope, signed: bool) -> Result<(), Refused> {
    let from = &envelope.from.agent;
    let asker = Asker {
        address: from,
        is_owner: from.person() == mapped.address.person(),
        signed,
        encrypted: envelope.body.is_encrypted(),
    };
    mapped.policy.check(&mapped.address, asker, |_| true)
}

/// What a relay says itself about a request nobody took: an unsigned error reply in the spec's words. It could as
/// well drop the message, so believing it gives away nothing.
fn is_relay_notice(envelope: &DeliveredEnvelope) -> bool {
    let says_so = matches!(envelope.body.view(), BodyView::Text(text) if text.starts_with("not delivered: "));
    envelope.kind == Kind::Reply && envelope.error && says_so
}

/// A relay checks the ten minutes when a message arrives; it may then wait for the longest TTL. Older than that,
/// the seen rows no longer protect against a replay (see docs/decisions/signature-time.md).
fn is_timely(ts: i64, relay_now: Timestamp) -> bool {
    let age = relay_now.secs().saturating_sub(ts);
    let oldest = i64::try_from(TTL_MAX_SECS).unwrap_or(i64::MAX).saturating_sub(SIGNATURE_WINDOW_SECS);
    (-SIGNATURE_WINDOW_SECS..=oldest).contains(&age)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_may_wait_as_long_as_a_message_may_and_no_longer() {
        let now = Timestamp::from_secs(1_790_000_000);
        assert!(is_timely(1_790_000_000, now));
        assert!(is_timely(1_790_000_600, now));
        assert!(!is_timely(1_790_000_601, now));
        assert!(is_timely(1_790_000_000 - 29 * 86_400, now));
        assert!(!is_timely(1_790_000_000 - 30 * 86_400, now));
    }
}
