//! SIGKILL at each moment that matters, on either side, around each kind of exchange. Afterwards every message is
//! there once, under its id, and in its conversation's order. The relay lives in this process with a clock that is
//! moved past the lease, as a quarter of an hour would.
//!
//! Which moments an exchange is killed at follows from the calls it makes; which storage and which generation is
//! under each, from every one being under each kind of moment, not from all times all.

mod exchanges;
mod peer;
mod scene;

use axum::http::Method;

use self::exchanges::Exchange;
use self::peer::Speaks::{V1, V2};
use self::scene::{Crash, Scene};
use crate::support::proxy::{Stop, When};

/// The part of an exchange that is cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leg {
    Request,
    Progress,
    Reply,
    /// What a bridge says itself about a request that its agent never finished.
    ErrorReply,
    /// What the relay says itself about a request that nobody took.
    Notice,
    Event,
    Subscription,
    Withdrawal,
    /// Mail that waits for a person is copied.
    Hold,
    /// A person has decided about what was held.
    Release,
}

/// When a bridge is killed: the sender's, or the one that takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// The sender has its zip kept, and no message to go with it yet.
    AfterTheUpload,
    AfterTheLocal201,
    AfterTheRelaysAnswer,
    AfterTheTake,
    BeforeTheFiles,
    AfterTheFiles,
    /// There is a copy that waits for a person.
    AfterTheHold,
    AfterTheLocalCommit,
    AfterTheAck,
    BeforeTheWithdrawal,
    AfterTheWithdrawal,
    /// The relay has subscribed the agent, and its bridge does not know.
    AfterTheSubscription,
}

impl Moment {
    /// The call that is stopped for ever, for a moment within one.
    fn stop(self) -> Option<Stop> {
        let (method, path, when, containing) = match self {
            Self::AfterTheUpload | Self::AfterTheHold => return None,
            Self::AfterTheLocal201 => (Method::POST, "/messages", When::BeforeTheRelay, ""),
            Self::AfterTheRelaysAnswer => (Method::POST, "/messages", When::AfterTheRelay, ""),
            Self::AfterTheTake => (Method::GET, "/inbox/", When::AfterTheRelay, "\"kind\""),
            Self::BeforeTheFiles => (Method::GET, "/files", When::BeforeTheRelay, ""),
            Self::AfterTheFiles => (Method::GET, "/files", When::AfterTheRelay, ""),
            Self::AfterTheLocalCommit => (Method::POST, "/ack", When::BeforeTheRelay, ""),
            Self::AfterTheAck => (Method::POST, "/ack", When::AfterTheRelay, ""),
            Self::BeforeTheWithdrawal => (Method::POST, "/cancel", When::BeforeTheRelay, ""),
            Self::AfterTheWithdrawal => (Method::POST, "/cancel", When::AfterTheRelay, ""),
            Self::AfterTheSubscription => (Method::PUT, "/subscriptions", When::AfterTheRelay, ""),
        };
        Some(Stop { method, path, when, containing })
    }

    const fn is_of_the_sender(self) -> bool {
        matches!(
            self,
            Self::AfterTheUpload
                | Self::AfterTheLocal201
                | Self::AfterTheRelaysAnswer
                | Self::BeforeTheWithdrawal
                | Self::AfterTheWithdrawal
        )
    }
}

macro_rules! crashes {
    ($($exchange:ident, $leg:ident: $close:ident to $billing:ident {
        $($name:ident: $moment:ident on $($storage:ident)*;)*
    })*) => {
        $($(mod $name {
            use super::*;

            $(#[tokio::test]
            async fn $storage() {
                let crash = Crash { leg: Leg::$leg, moment: Moment::$moment };
                let scene = Scene::new(stringify!($storage), ($close, $billing), crash).await;
                Exchange::$exchange.run(scene).await;
            })*
        })*)*
    };
}

crashes! {
    Question, Request: V1 to V1 {
        a_request_after_its_local_201: AfterTheLocal201 on sqlite jsonl;
        a_request_after_the_relays_201: AfterTheRelaysAnswer on sqlite jsonl;
        a_request_after_it_is_taken: AfterTheTake on sqlite jsonl;
        a_request_after_it_is_kept: AfterTheLocalCommit on sqlite jsonl;
        a_request_after_its_ack: AfterTheAck on jsonl;
    }
    Question, Reply: V1 to V1 {
        a_reply_after_its_local_201: AfterTheLocal201 on sqlite jsonl;
        a_reply_after_the_relays_201: AfterTheRelaysAnswer on sqlite jsonl;
        a_reply_after_it_is_taken: AfterTheTake on sqlite jsonl;
        a_reply_after_it_is_kept: AfterTheLocalCommit on sqlite jsonl;
        a_reply_after_its_ack: AfterTheAck on sqlite;
    }
    Question, Request: V2 to V1 {
        a_v2_request_after_its_local_201: AfterTheLocal201 on sqlite;
        a_v2_request_after_the_relays_201: AfterTheRelaysAnswer on jsonl;
    }
    Question, Reply: V2 to V1 {
        a_reply_to_v2_after_it_is_taken: AfterTheTake on jsonl;
        a_reply_to_v2_after_it_is_kept: AfterTheLocalCommit on sqlite;
    }
    Question, Request: V1 to V2 {
        a_request_to_v2_after_it_is_taken: AfterTheTake on sqlite;
        a_request_to_v2_after_it_is_kept: AfterTheLocalCommit on jsonl;
    }
    Question, Reply: V1 to V2 {
        a_v2_reply_after_its_local_201: AfterTheLocal201 on jsonl;
        a_v2_reply_after_the_relays_201: AfterTheRelaysAnswer on sqlite;
    }
    Question, Request: V2 to V2 {
        a_v2_request_to_v2_after_its_local_201: AfterTheLocal201 on jsonl;
        a_v2_request_to_v2_after_its_ack: AfterTheAck on sqlite;
    }
    Question, Reply: V2 to V2 {
        a_v2_reply_to_v2_after_it_is_kept: AfterTheLocalCommit on jsonl;
    }
    Files, Request: V1 to V1 {
        files_after_their_upload: AfterTheUpload on sqlite;
        files_after_their_local_201: AfterTheLocal201 on jsonl;
        files_after_the_relays_201: AfterTheRelaysAnswer on sqlite;
        files_before_they_are_fetched: BeforeTheFiles on jsonl;
        files_after_they_are_fetched: AfterTheFiles on sqlite;
        files_after_they_are_kept: AfterTheLocalCommit on jsonl;
        files_after_their_ack: AfterTheAck on sqlite;
    }
    Files, Request: V1 to V2 {
        files_to_v2_after_they_are_fetched: AfterTheFiles on jsonl;
        files_to_v2_after_they_are_kept: AfterTheLocalCommit on sqlite;
    }
    Topic, Subscription: V1 to V1 {
        a_subscription_after_the_relays_answer: AfterTheSubscription on jsonl;
    }
    Topic, Event: V1 to V1 {
        an_event_after_its_local_201: AfterTheLocal201 on sqlite;
        an_event_after_the_relays_201: AfterTheRelaysAnswer on jsonl;
        an_event_after_it_is_taken: AfterTheTake on jsonl;
        an_event_after_it_is_kept: AfterTheLocalCommit on sqlite;
    }
    Topic, Event: V1 to V2 {
        an_event_to_v2_after_it_is_kept: AfterTheLocalCommit on jsonl;
    }
    Progress, Progress: V1 to V1 {
        progress_after_its_local_201: AfterTheLocal201 on jsonl;
        progress_after_the_relays_201: AfterTheRelaysAnswer on sqlite;
        progress_after_it_is_taken: AfterTheTake on sqlite;
    }
    Progress, Progress: V2 to V1 {
        progress_to_v2_after_it_is_kept: AfterTheLocalCommit on jsonl;
    }
    GivenBack, ErrorReply: V1 to V1 {
        an_error_reply_before_it_leaves: AfterTheLocal201 on jsonl;
        an_error_reply_after_it_is_taken: AfterTheTake on sqlite;
        an_error_reply_after_it_is_kept: AfterTheLocalCommit on jsonl;
    }
    GivenBack, ErrorReply: V1 to V2 {
        an_error_reply_of_v2_after_the_relays_201: AfterTheRelaysAnswer on sqlite;
    }
    Untaken, Notice: V1 to V1 {
        a_relays_notice_after_it_is_taken: AfterTheTake on jsonl;
        a_relays_notice_after_it_is_kept: AfterTheLocalCommit on sqlite;
    }
    Untaken, Notice: V2 to V1 {
        a_relays_notice_to_v2_after_it_is_taken: AfterTheTake on sqlite;
    }
    Refused, Request: V1 to V1 {
        a_refusal_before_it_is_asked_for: AfterTheLocal201 on jsonl;
        a_refusal_after_the_relays_answer: AfterTheRelaysAnswer on sqlite;
    }
    Refused, Request: V2 to V1 {
        a_refusal_to_v2_after_the_relays_answer: AfterTheRelaysAnswer on jsonl;
    }
    Withdrawn, Withdrawal: V1 to V1 {
        a_withdrawal_before_the_relay_has_it: BeforeTheWithdrawal on sqlite;
        a_withdrawal_after_the_relays_answer: AfterTheWithdrawal on jsonl;
    }
    Withdrawn, Withdrawal: V2 to V1 {
        a_v2_withdrawal_before_the_relay_has_it: BeforeTheWithdrawal on jsonl;
        a_v2_withdrawal_after_the_relays_answer: AfterTheWithdrawal on sqlite;
    }
    Held, Hold: V1 to V2 {
        held_mail_for_v2_before_its_files: BeforeTheFiles on jsonl;
    }
    Held, Hold: V1 to V1 {
        held_mail_before_its_files: BeforeTheFiles on sqlite;
        held_mail_after_its_files: AfterTheFiles on jsonl;
    }
    Held, Release: V1 to V2 {
        mail_accepted_for_v2_after_it_is_kept: AfterTheLocalCommit on sqlite;
    }
    Held, Release: V1 to V1 {
        held_mail_while_it_waits: AfterTheHold on jsonl;
        accepted_mail_after_it_is_kept: AfterTheLocalCommit on jsonl;
        accepted_mail_after_its_ack: AfterTheAck on sqlite;
    }
}
