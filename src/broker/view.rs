//! Stored messages as the wire shows them.

use crate::domain::clock::Timestamp;
use crate::domain::delivery::State;
use crate::proto::dsh::v1::answer;
use crate::proto::dsh::v1::envelope::Envelope;
use crate::proto::dsh::v1::iso::iso;
use crate::store::local::{Peer, Stages, StatusLine, StoredMessage};

pub(super) fn envelope(stored: StoredMessage) -> Envelope {
    let StoredMessage { message, delivery, error, .. } = stored;
    let status = delivery.state.status().as_str();
    let (lease_id, lease_until) = match delivery.state {
        State::Leased(lease) => (Some(lease.id.as_str().to_owned()), Some(lease.until.millis())),
        State::Queued { .. } | State::LeasedElsewhere | State::Done | State::Failed => (None, None),
    };
    Envelope {
        id: message.id,
        from: message.from,
        to: message.to,
        ts: iso(message.ts.millis()),
        message_type: message.message_type,
        body: message.body,
        reply_to: message.reply_to,
        ack: message.ack,
        status,
        attempts: delivery.attempts,
        lease_until,
        lease_id,
        kind: message.kind,
        root_id: message.root_id,
        parent_id: message.parent_id,
        error,
        redsyn: message.redsyn,
    }
}

pub(super) fn envelopes(stored: Vec<StoredMessage>) -> Vec<Envelope> {
    stored.into_iter().map(envelope).collect()
}

pub(super) fn status((id, line): (String, Option<StatusLine>)) -> answer::Status {
    let Some(line) = line else { return answer::Status::not_found(id) };
    answer::Status::Known(Box::new(answer::KnownStatus {
        id: line.id,
        status: line.status.as_str(),
        attempts: line.attempts,
        ts: iso(line.ts.millis()),
        from: line.from,
        to: line.to,
        kind: line.kind,
        stages: stages(line.ts, line.stages),
    }))
}

pub(super) fn stages(stored: Timestamp, stages: Stages) -> answer::Stages {
    let at = |stage: Option<Timestamp>| stage.map(|at| iso(at.millis()));
    answer::Stages {
        stored: iso(stored.millis()),
        accepted: at(stages.accepted),
        leased: at(stages.leased),
        acked: at(stages.acked),
        answered: at(stages.answered),
        held: at(stages.held),
        failed: at(stages.failed),
    }
}

pub(super) fn peer(peer: Peer) -> answer::Peer {
    answer::Peer { agent: peer.agent, online: peer.online, last_seen: peer.last_seen.secs() }
}
