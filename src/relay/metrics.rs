//! What a relay counts, under names that dashboards rely on: a name that has shipped is not changed.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::domain::metrics::{Kind, Tally, Text};

/// A number that only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    AnswersOk,
    AnswersRefused,
    AnswersFailed,
    CallsLimited,
    MessagesAccepted,
    MessagesDuplicate,
    MessagesTaken,
    MessagesConfirmed,
    MessagesExpired,
    MessagesAbandoned,
    MessagesForgotten,
    LeasesEnded,
    PushesTaken,
    PushesFailed,
}

impl Counter {
    pub const ALL: [Self; 14] = [
        Self::AnswersOk,
        Self::AnswersRefused,
        Self::AnswersFailed,
        Self::CallsLimited,
        Self::MessagesAccepted,
        Self::MessagesDuplicate,
        Self::MessagesTaken,
        Self::MessagesConfirmed,
        Self::MessagesExpired,
        Self::MessagesAbandoned,
        Self::MessagesForgotten,
        Self::LeasesEnded,
        Self::PushesTaken,
        Self::PushesFailed,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::AnswersOk => "redsyn_relay_answers_ok_total",
            Self::AnswersRefused => "redsyn_relay_answers_refused_total",
            Self::AnswersFailed => "redsyn_relay_answers_failed_total",
            Self::CallsLimited => "redsyn_relay_calls_limited_total",
            Self::MessagesAccepted => "redsyn_relay_messages_accepted_total",
            Self::MessagesDuplicate => "redsyn_relay_messages_duplicate_total",
            Self::MessagesTaken => "redsyn_relay_messages_taken_total",
            Self::MessagesConfirmed => "redsyn_relay_messages_confirmed_total",
            Self::MessagesExpired => "redsyn_relay_messages_expired_total",
            Self::MessagesAbandoned => "redsyn_relay_messages_abandoned_total",
            Self::MessagesForgotten => "redsyn_relay_messages_forgotten_total",
            Self::LeasesEnded => "redsyn_relay_leases_ended_total",
            Self::PushesTaken => "redsyn_relay_pushes_taken_total",
            Self::PushesFailed => "redsyn_relay_pushes_failed_total",
        }
    }

    const fn help(self) -> &'static str {
        match self {
            Self::AnswersOk => "Answers below 400",
            Self::AnswersRefused => "Answers from 400 to 499",
            Self::AnswersFailed => "Answers from 500 on",
            Self::CallsLimited => "Calls refused because there were too many",
            Self::MessagesAccepted => "Messages accepted",
            Self::MessagesDuplicate => "Messages sent again under the same id",
            Self::MessagesTaken => "Messages handed out by takes, each time",
            Self::MessagesConfirmed => "Messages confirmed",
            Self::MessagesExpired => "Messages that expired",
            Self::MessagesAbandoned => "Messages given up after ten takes or pushes",
            Self::MessagesForgotten => "Messages deleted because they ended long ago",
            Self::LeasesEnded => "Leases that ended without a confirmation",
            Self::PushesTaken => "Pushes that a webhook took",
            Self::PushesFailed => "Pushes that failed",
        }
    }
}

/// A number that goes up and down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gauge {
    Connections,
    HeldMailboxes,
    BodyBytes,
}

impl Gauge {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connections => "redsyn_relay_connections",
            Self::HeldMailboxes => "redsyn_relay_held_mailboxes",
            Self::BodyBytes => "redsyn_relay_body_bytes",
        }
    }

    const fn help(self) -> &'static str {
        match self {
            Self::Connections => "Open connections",
            Self::HeldMailboxes => "Mailboxes at which somebody waits",
            Self::BodyBytes => "Memory reserved for the bodies of calls",
        }
    }
}

#[derive(Debug, Default)]
pub struct Metrics {
    counters: Tally<{ Counter::ALL.len() }>,
    connections: AtomicU64,
}

impl Metrics {
    pub fn add(&self, counter: Counter, by: u64) {
        self.counters.add(counter as usize, by);
    }

    pub fn get(&self, counter: Counter) -> u64 {
        self.counters.get(counter as usize)
    }

    pub(super) fn connection_opened(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn connection_closed(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// The text format of Prometheus.
    pub fn to_text(&self, held_mailboxes: usize, body_bytes: usize) -> String {
        let mut text = Text::default();
        for counter in Counter::ALL {
            text.one(counter.name(), counter.help(), Kind::Counter, self.get(counter));
        }
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        for (gauge, value) in [
            (Gauge::Connections, self.connections.load(Ordering::Relaxed)),
            (Gauge::HeldMailboxes, number(held_mailboxes)),
            (Gauge::BodyBytes, number(body_bytes)),
        ] {
            text.one(gauge.name(), gauge.help(), Kind::Gauge, value);
        }
        text.into_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_used_once_and_counts_for_itself() {
        let metrics = Metrics::default();
        for (at, counter) in Counter::ALL.into_iter().enumerate() {
            assert_eq!(counter as usize, at);
            metrics.add(counter, at as u64 + 1);
        }
        metrics.connections.fetch_add(7, Ordering::Relaxed);
        let text = metrics.to_text(3, 4096);
        for (at, counter) in Counter::ALL.into_iter().enumerate() {
            let line = format!("{} {}", counter.name(), at + 1);
            assert_eq!(text.lines().filter(|one| **one == line).count(), 1, "{line}");
        }
        assert!(text.contains("\nredsyn_relay_connections 7\n"));
        assert!(text.contains("\nredsyn_relay_held_mailboxes 3\n"));
        assert!(text.ends_with("redsyn_relay_body_bytes 4096\n"));
    }
}
