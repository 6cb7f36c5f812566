//! What a local message becomes when it leaves the machine, decided from the message and
//! from what it answers. Pure; the store asks it inside the transaction that keeps the message.

use crate::proto::redsyn::ids::MessageId;

/// How a local message calls itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalKind {
    Message,
    Request,
    Reply,
    /// The receipt route, status `ok`.
    ReceiptOk,
    /// The receipt route, status `error`.
    ReceiptError,
}

/// A bridged message that the local one names in `parentId` or `replyTo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Set when it is a request that came in for this agent.
    pub inbound_request: Option<InboundRequest>,
    pub thread: Option<String>,
}

/// An inbound request as far as its answer is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundRequest {
    pub id: MessageId,
    /// A reply has closed it, or it has failed.
    pub is_closed: bool,
}

/// What leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Crossing {
    Request {
        /// The conversation it continues; none for a new one.
        thread: Option<String>,
    },
    Reply {
        to: MessageId,
        error: bool,
    },
    Progress {
        to: MessageId,
    },
    /// A receipt that nobody beyond this machine asked for.
    Nothing,
}

/// Decides. `parent` is what `parentId` names and `reply_to` what `replyTo` names, when these are bridged; of the
/// two, the first that is an inbound request is answered. `root_thread` is the known thread that `rootId` names;
/// `receipts_travel` is `redsyn.receipts: progress`.
pub fn crossing(
    kind: LocalKind,
    parent: Option<&Named>,
    reply_to: Option<&Named>,
    root_thread: Option<String>,
    receipts_travel: bool,
) -> Crossing {
    let request = [parent, reply_to].into_iter().flatten().find_map(|named| named.inbound_request.as_ref());
    let named = parent.or(reply_to);
    let thread = named.and_then(|named| named.thread.clone()).or(root_thread);
    let Some(request) = request else {
        return match kind {
            LocalKind::ReceiptOk | LocalKind::ReceiptError => Crossing::Nothing,
            LocalKind::Message | LocalKind::Request | LocalKind::Reply => Crossing::Request { thread },
        };
    };
    let is_progress = match kind {
        LocalKind::ReceiptOk if !receipts_travel => return Crossing::Nothing,
        LocalKind::ReceiptOk => true,
        LocalKind::Request => return Crossing::Request { thread },
        LocalKind::Message => parent.is_some(),
        LocalKind::Reply | LocalKind::ReceiptError => false,
    };
    match (request.is_closed, kind) {
        // The relay would refuse it, and there is nothing to say that the reply has not said.
        (true, LocalKind::ReceiptOk | LocalKind::ReceiptError) => Crossing::Nothing,
        // A reply has already closed the request: what comes later is a new request in the same thread.
        (true, _) => Crossing::Request { thread },
        (false, _) if is_progress => Crossing::Progress { to: request.id.clone() },
        (false, _) => Crossing::Reply { to: request.id.clone(), error: kind == LocalKind::ReceiptError },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(is_closed: bool) -> Named {
        let inbound_request = Some(InboundRequest { id: "q1".parse().unwrap(), is_closed });
        Named { inbound_request, thread: Some("t1".into()) }
    }

    fn request(thread: Option<&str>) -> Crossing {
        Crossing::Request { thread: thread.map(str::to_owned) }
    }

    #[test]
    fn what_names_no_bridged_message_is_a_request() {
        for kind in [LocalKind::Message, LocalKind::Request, LocalKind::Reply] {
            assert_eq!(crossing(kind, None, None, None, false), request(None));
            assert_eq!(crossing(kind, None, None, Some("t0".into()), false), request(Some("t0")));
        }
    }

    #[test]
    fn the_first_answer_is_the_reply_and_later_ones_are_requests_in_its_thread() {
        let reply = Crossing::Reply { to: "q1".parse().unwrap(), error: false };
        assert_eq!(crossing(LocalKind::Reply, Some(&named(false)), None, None, false), reply);
        assert_eq!(crossing(LocalKind::Reply, None, Some(&named(false)), None, false), reply);
        assert_eq!(
            crossing(LocalKind::Message, None, Some(&named(false)), None, false),
            reply,
            "all v1.0 can say"
        );
        assert_eq!(crossing(LocalKind::Reply, Some(&named(true)), None, None, false), request(Some("t1")));
        assert_eq!(crossing(LocalKind::Message, None, Some(&named(true)), None, false), request(Some("t1")));
    }

    #[test]
    fn a_message_under_a_request_is_progress() {
        let progress = Crossing::Progress { to: "q1".parse().unwrap() };
        let both = crossing(LocalKind::Message, Some(&named(false)), Some(&named(false)), None, false);
        assert_eq!(both, progress);
        assert_eq!(crossing(LocalKind::Message, Some(&named(true)), None, None, false), request(Some("t1")));
    }

    #[test]
    fn a_reply_finds_its_request_behind_a_parent_that_is_none() {
        let progress = Named { inbound_request: None, thread: Some("t1".into()) };
        let reply = Crossing::Reply { to: "q1".parse().unwrap(), error: false };
        assert_eq!(crossing(LocalKind::Reply, Some(&progress), Some(&named(false)), None, false), reply);
        assert_eq!(crossing(LocalKind::Reply, Some(&progress), None, None, false), request(Some("t1")));
    }

    #[test]
    fn receipts_stay_home_unless_configured_and_errors_answer() {
        let open = named(false);
        assert_eq!(crossing(LocalKind::ReceiptOk, None, Some(&open), None, false), Crossing::Nothing);
        let progress = Crossing::Progress { to: "q1".parse().unwrap() };
        assert_eq!(crossing(LocalKind::ReceiptOk, None, Some(&open), None, true), progress);
        let error = Crossing::Reply { to: "q1".parse().unwrap(), error: true };
        assert_eq!(crossing(LocalKind::ReceiptError, None, Some(&open), None, false), error);
        assert_eq!(
            crossing(LocalKind::ReceiptError, None, Some(&named(true)), None, false),
            Crossing::Nothing
        );
        assert_eq!(crossing(LocalKind::ReceiptError, None, None, None, false), Crossing::Nothing);
    }
}
