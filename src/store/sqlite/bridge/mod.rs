//! The bridge's operations on the local store, each one transaction: outbox, arrivals, pins, held mail.

mod arrivals;
mod decisions;
mod generations;
mod held;
mod outbox;
mod parcels;
mod pins;
mod remotes;
mod rows;
pub(crate) mod sql;
mod views;

pub(crate) use arrivals::{ended, ended_v2};
pub use held::{HELD_BYTES_PER_PERSON, HELD_PER_PERSON};

use std::collections::HashSet;

use super::db::Db;
use crate::crypto::sign::VerifyingKey;
use crate::domain::clock::Timestamp;
use crate::proto::dsh::names::AgentName;
use crate::proto::redsyn::address::{AgentAddress, Person, TopicAddress};
use crate::proto::redsyn::ids::MessageId;
use crate::store::StoreError;
use crate::store::bridge::generation::Generation;
use crate::store::bridge::{
    Acceptance, Accepted, Arrival, Confirmation, Departure, Depths, Due, Failure, HeldOut, Known, Landed,
    OutboxEntry, Pin, PinState, Refusal, Released, Traced, Upload, Waiting, Withdrawal,
};
use crate::store::v2::{self, Created};

/// The schema step that adds the bridge's tables to the local store.
pub(crate) const SCHEMA: &str = include_str!("schema.sql");
/// The schema step for what a person decides about keys and held mail.
pub(crate) const DECISIONS: &str = include_str!("decisions.sql");
/// The step that adds files on their way.
pub(crate) const PARCELS: &str = include_str!("parcels.sql");
/// The step that adds the second generation of the local protocol.
pub(crate) const GENERATIONS: &str = include_str!("generations.sql");
/// The step that adds the files of held mail, and when the relay hands it out again.
pub(crate) const HELD: &str = include_str!("held.sql");

/// A handle to the bridge's part of the local store. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct BridgeStore {
    db: Db,
}

impl BridgeStore {
    pub fn new(db: Db) -> Self {
        Self { db }
    }

    /// Keeps a local message and, in the same transaction, the promise to carry it. `Ok` means committed. `then` runs
    /// after the commit, also when the caller is gone.
    ///
    /// # Errors
    /// When nothing was kept.
    pub async fn depart(
        &self,
        departure: Departure,
        then: impl FnOnce(&Created) + Send + 'static,
    ) -> Result<Created, StoreError> {
        let keep = move |conn: &rusqlite::Connection| outbox::depart(conn, &departure);
        self.db.call_then("bridge_depart", keep, then).await
    }

    /// `agent` takes its mail in `generation` from now on.
    ///
    /// # Errors
    /// When nothing was changed.
    pub async fn switch(&self, agent: AgentName, generation: Generation) -> Result<(), StoreError> {
        self.db.call("bridge_switch", move |conn| generations::switch(conn, &agent, generation)).await
    }

    /// At most `limit` of the entries that may be sent now: due, the oldest of their lane, and not under way. `then` is
    /// told of them before anybody is told of a later change: a withdrawal comes before the look, or after `then`.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn due(
        &self,
        now: Timestamp,
        under_way: HashSet<i64>,
        limit: usize,
        then: impl FnOnce(&Due) + Send + 'static,
    ) -> Result<Due, StoreError> {
        let look = move |conn: &rusqlite::Connection| outbox::due(conn, now, &under_way, limit);
        self.db.call_then("bridge_due", look, then).await
    }

    /// The relay has it: out of the outbox, thread and session kept.
    ///
    /// # Errors
    /// When nothing was kept.
    pub async fn accepted(&self, accepted: Accepted) -> Result<(), StoreError> {
        self.db.call("bridge_accepted", move |conn| outbox::accepted(conn, &accepted)).await
    }

    /// Try again at `next`.
    ///
    /// # Errors
    /// When nothing was kept.
    pub async fn postpone(&self, seq: i64, next: Timestamp, why: String) -> Result<(), StoreError> {
        self.db.call("bridge_postpone", move |conn| outbox::postpone(conn, seq, next, &why)).await
    }

    /// It, and what follows in its lane, waits for a person's decision; about `key`, when the relay gave one.
    ///
    /// # Errors
    /// When nothing was kept.
    pub async fn hold(
        &self,
        entry: OutboxEntry,
        reason: String,
        key: Option<VerifyingKey>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let key = key.map(|key| key.to_string());
        self.db
            .call("bridge_hold", move |conn| outbox::hold(conn, &entry, &reason, key.as_deref(), now))
            .await
    }

    /// It will never arrive: out of the outbox, and the local sender gets `notice`, once.
    ///
    /// # Errors
    /// When nothing was kept.
    pub async fn failed(
        &self,
        failure: Failure,
        notice: Option<crate::store::local::NewMessage>,
    ) -> Result<(), StoreError> {
        self.db.call("bridge_failed", move |conn| outbox::failed(conn, &failure, notice.as_ref())).await
    }

    /// Keeps an inbound message with the row that tells that it has come, and its signer's pin. `then` runs
    /// after the commit, also when the caller is gone.
    ///
    /// # Errors
    /// When nothing was kept.
    pub async fn arrive(
        &self,
        arrival: Arrival,
        then: impl FnOnce(&Landed) + Send + 'static,
    ) -> Result<Landed, StoreError> {
        let keep = move |conn: &rusqlite::Connection| arrivals::arrive(conn, &arrival);
        self.db.call_then("bridge_arrive", keep, then).await
    }

    /// What is known of an inbound message of `person`, and of `thread` when that is in doubt.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn known(
        &self,
        agent: AgentName,
        id: MessageId,
        person: Person,
        thread: Option<String>,
    ) -> Result<Known, StoreError> {
        let look = move |conn: &rusqlite::Connection| {
            let thread_since =
                thread.as_ref().map(|thread| arrivals::thread_since(conn, &agent, thread)).transpose()?;
            Ok(Known {
                is_seen: arrivals::is_seen(conn, &agent, &id)?,
                pins: pins::of(conn, &person)?,
                thread_since: thread_since.flatten(),
            })
        };
        self.db.call("bridge_known", look).await
    }

    /// The first of these that has neither been dealt with nor is held.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn first_unknown(
        &self,
        agent: AgentName,
        ids: Vec<MessageId>,
    ) -> Result<Option<MessageId>, StoreError> {
        let look = move |conn: &rusqlite::Connection| arrivals::first_unknown(conn, &agent, &ids);
        self.db.call("bridge_first_unknown", look).await
    }

    /// Notes that an inbound message was refused and, when it was a request, puts the error reply into the outbox.
    ///
    /// # Errors
    /// When nothing was kept.
    pub async fn refuse(&self, refusal: Refusal) -> Result<(), StoreError> {
        self.db.call("bridge_refuse", move |conn| arrivals::refuse(conn, &refusal)).await
    }

    /// Pins a key that mail of this person waits for: the one with this fingerprint, or the only one. What waits for
    /// it may go on.
    ///
    /// # Errors
    /// When nothing was changed.
    pub async fn accept_key(
        &self,
        person: Person,
        fingerprint: Option<String>,
        now: Timestamp,
    ) -> Result<Acceptance, StoreError> {
        let work = move |conn: &_| decisions::accept(conn, &person, fingerprint.as_deref(), now);
        self.db.call("bridge_accept_key", work).await
    }

    /// Drops the inbound mail that waits for a decision about this person; requests are answered with an error. Gives
    /// what may be acked to the relay.
    ///
    /// # Errors
    /// When nothing was changed.
    pub async fn reject_held(
        &self,
        person: Person,
        now: Timestamp,
    ) -> Result<Vec<(AgentName, MessageId)>, StoreError> {
        self.db.call("bridge_reject", move |conn| decisions::reject(conn, &person, now)).await
    }

    /// Marks a key that is pinned, or that mail waits for, as verified by a person. What waits for it may go on.
    ///
    /// # Errors
    /// When nothing was changed.
    pub async fn confirm_key(
        &self,
        person: Person,
        fingerprint: String,
        now: Timestamp,
    ) -> Result<Confirmation, StoreError> {
        let work = move |conn: &_| decisions::confirm(conn, &person, &fingerprint, now);
        self.db.call("bridge_confirm_key", work).await
    }

    /// Lets plain text go to `address`, or to every address of the person. `None` when none of them ever had a key.
    ///
    /// # Errors
    /// When nothing was changed.
    pub async fn allow_plain(
        &self,
        person: Person,
        address: Option<AgentAddress>,
        now: Timestamp,
    ) -> Result<Option<Released>, StoreError> {
        let work = move |conn: &_| decisions::allow_plain(conn, &person, address.as_ref(), now);
        self.db.call("bridge_allow_plain", work).await
    }

    /// Takes unsigned mail of a person with a pinned key from now on.
    ///
    /// # Errors
    /// When nothing was changed.
    pub async fn allow_unsigned(&self, person: Person, now: Timestamp) -> Result<Released, StoreError> {
        self.db.call("bridge_allow_unsigned", move |conn| decisions::allow_unsigned(conn, &person, now)).await
    }

    /// Every pin.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn pins(&self) -> Result<Vec<Pin>, StoreError> {
        self.db.call("bridge_pins", |conn| pins::list(conn, None)).await
    }

    /// Held outbound mail.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn held_out(&self) -> Result<Vec<HeldOut>, StoreError> {
        self.db.call("bridge_held_out", views::held_out).await
    }

    /// What waits in the outbox, oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn outbox(&self) -> Result<Vec<Waiting>, StoreError> {
        self.db.call("bridge_outbox", views::outbox).await
    }

    /// How much waits.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn depths(&self) -> Result<Depths, StoreError> {
        self.db.call("bridge_depths", views::depths).await
    }

    /// What is known of a message, by its id here or at the relay.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn trace(&self, id: String, agents: Vec<AgentName>) -> Result<Vec<Traced>, StoreError> {
        self.db.call("bridge_trace", move |conn| views::trace(conn, &id, &agents)).await
    }

    /// Whether any key of `person` is pinned.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn has_pin(&self, person: Person) -> Result<bool, StoreError> {
        self.db.call("bridge_has_pin", move |conn| pins::any(conn, &person)).await
    }

    /// Whether unsigned mail of `person` is held: a key is pinned, or known by other means, and nobody here has allowed
    /// it.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn must_sign(&self, person: Person, is_known: bool) -> Result<bool, StoreError> {
        self.db.call("bridge_must_sign", move |conn| pins::must_sign(conn, &person, is_known)).await
    }

    /// Pins the key a relay gave for `address`, when it is the person's first, and notes that `address` has a key.
    ///
    /// # Errors
    /// When nothing was kept.
    pub async fn pin_recipient(
        &self,
        address: AgentAddress,
        key: VerifyingKey,
        now: Timestamp,
    ) -> Result<PinState, StoreError> {
        self.db
            .call("bridge_pin", move |conn| pins::pin_recipient(conn, &address, &key.to_string(), now))
            .await
    }

    /// Whether `address` has ever had a key: then nothing goes to it in plain text.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn was_sealed(&self, address: AgentAddress) -> Result<bool, StoreError> {
        self.db.call("bridge_was_sealed", move |conn| pins::was_sealed(conn, &address)).await
    }

    /// Who has written after that moment, the latest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn remotes(&self, after: Timestamp) -> Result<Vec<(AgentAddress, Timestamp)>, StoreError> {
        self.db.call("bridge_remotes", move |conn| remotes::lately(conn, after)).await
    }

    /// Which topics this node has subscribed its agents to.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn subscriptions(&self) -> Result<Vec<(AgentAddress, TopicAddress)>, StoreError> {
        self.db.call("bridge_subscriptions", remotes::subscriptions).await
    }

    /// Notes that `address` listens to `topic`, or does no more.
    ///
    /// # Errors
    /// When nothing was kept.
    pub async fn listens(
        &self,
        address: AgentAddress,
        topic: TopicAddress,
        listens: bool,
    ) -> Result<(), StoreError> {
        self.db.call("bridge_listens", move |conn| remotes::listens(conn, &address, &topic, listens)).await
    }

    /// Keeps a zip for a message to come.
    ///
    /// # Errors
    /// When nothing was kept.
    pub async fn upload(&self, upload: Upload) -> Result<(), StoreError> {
        self.db.call("bridge_upload", move |conn| parcels::upload(conn, &upload)).await
    }

    /// A zip that `agent` has uploaded under this name.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn uploaded(
        &self,
        agent: AgentName,
        sha256: String,
        now: Timestamp,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        self.db.call("bridge_uploaded", move |conn| parcels::uploaded(conn, &agent, &sha256, now)).await
    }

    /// Whether `agent` has sent this message before.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn has_departed(&self, agent: AgentName, local_id: String) -> Result<bool, StoreError> {
        let departed = move |conn: &_| {
            Ok(rows::by_local(conn, &agent, &local_id, Generation::V1)?.is_some_and(|row| !row.is_inbound))
        };
        self.db.call("bridge_has_departed", departed).await
    }

    /// What `message`'s origin has sent under its idempotency key.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn sent_before(&self, message: v2::NewMessage) -> Result<Option<Created>, StoreError> {
        self.db.call("bridge_sent_before", move |conn| super::v2::sent_before(conn, &message)).await
    }

    /// The zip that goes with an entry; `None` when the entry has been settled meanwhile.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn outbox_zip(&self, seq: i64) -> Result<Option<Vec<u8>>, StoreError> {
        self.db.call("bridge_outbox_zip", move |conn| parcels::outbox_zip(conn, seq)).await
    }

    /// The files of a message that `agent` sent or received; the outer `None`: there is no such message.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn files(
        &self,
        agent: AgentName,
        local_id: String,
    ) -> Result<Option<Option<Vec<u8>>>, StoreError> {
        self.db.call("bridge_files", move |conn| parcels::files(conn, &agent, &local_id)).await
    }

    /// Stops a request that its sender wants back.
    ///
    /// # Errors
    /// When nothing was changed.
    pub async fn withdraw(
        &self,
        agent: AgentName,
        local_id: String,
        generation: Generation,
        now: Timestamp,
    ) -> Result<Withdrawal, StoreError> {
        self.db
            .call("bridge_withdraw", move |conn| parcels::withdraw(conn, &agent, &local_id, generation, now))
            .await
    }

    /// A stopped entry goes on.
    ///
    /// # Errors
    /// When nothing was changed.
    pub async fn go_on(&self, seq: i64, now: Timestamp) -> Result<(), StoreError> {
        self.db.call("bridge_go_on", move |conn| parcels::go_on(conn, seq, now)).await
    }

    /// Whether anything has crossed, or a key is pinned.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn has_mail(&self) -> Result<bool, StoreError> {
        self.db
            .call("bridge_has_mail", |conn| {
                Ok(conn.prepare_cached(sql::HAS_MAIL)?.query_row([], |row| row.get(0))?)
            })
            .await
    }

    /// Every stopped entry goes on: for a start, when whoever wanted it back is gone without an answer.
    ///
    /// # Errors
    /// When nothing was changed.
    pub async fn all_go_on(&self, now: Timestamp) -> Result<(), StoreError> {
        self.db.call("bridge_all_go_on", move |conn| parcels::all_go_on(conn, now)).await
    }

    /// A request that nobody has taken and nobody will.
    ///
    /// # Errors
    /// When nothing was kept.
    pub async fn withdrawn(&self, agent: AgentName, id: MessageId, now: Timestamp) -> Result<(), StoreError> {
        self.db.call("bridge_withdrawn", move |conn| parcels::withdrawn(conn, &agent, &id, now)).await
    }

    /// Forgets what no relay can deliver again.
    ///
    /// # Errors
    /// When nothing was changed.
    pub async fn forget(&self, now: Timestamp) -> Result<(), StoreError> {
        while self.db.call("bridge_forget", move |conn| arrivals::forget(conn, now)).await? {}
        Ok(())
    }
}

#[cfg(test)]
mod plan_tests;
#[cfg(test)]
mod tests;
