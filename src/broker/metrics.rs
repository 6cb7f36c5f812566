//! What the broker counts, and how it is called in `GET /metrics`. All names, labels and their values stand here: a
//! dashboard relies on them, and no value is a text that a client could choose.

use std::time::Duration;

use crate::domain::metrics::{Kind, Label, Tally, Text};
use crate::proto::dsh::error::Code;
use crate::proto::dsh::v1::route::{ParcelRoute, Route};
use crate::proto::dsh::v2;
use crate::store::commits::Commits;
use crate::store::local::Load;

/// A route, without what differs from call to call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    About,
    Health,
    Metrics,
    Register,
    Peers,
    Send,
    Poll,
    Pull,
    Ack,
    Status,
    Recent,
    Query,
    Receipt,
    Upload,
    Files,
    Withdraw,
    Unknown,
    V2Create,
    V2Pull,
    V2Ack,
    V2Renew,
    V2Status,
    V2Recent,
    V2Query,
    V2Unfinished,
    V2Requeue,
    V2Cancel,
    V2Upload,
    V2Files,
    V2Withdraw,
    V2Unknown,
}

impl Endpoint {
    /// In the order of the enum.
    pub const ALL: [Self; 31] = [
        Self::About,
        Self::Health,
        Self::Metrics,
        Self::Register,
        Self::Peers,
        Self::Send,
        Self::Poll,
        Self::Pull,
        Self::Ack,
        Self::Status,
        Self::Recent,
        Self::Query,
        Self::Receipt,
        Self::Upload,
        Self::Files,
        Self::Withdraw,
        Self::Unknown,
        Self::V2Create,
        Self::V2Pull,
        Self::V2Ack,
        Self::V2Renew,
        Self::V2Status,
        Self::V2Recent,
        Self::V2Query,
        Self::V2Unfinished,
        Self::V2Requeue,
        Self::V2Cancel,
        Self::V2Upload,
        Self::V2Files,
        Self::V2Withdraw,
        Self::V2Unknown,
    ];

    /// The generation and the route.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::About => ("any", "GET /"),
            Self::Health => ("any", "GET /healthz"),
            Self::Metrics => ("any", "GET /metrics"),
            Self::Register => ("v1", "POST /register"),
            Self::Peers => ("v1", "GET /peers"),
            Self::Send => ("v1", "POST /messages"),
            Self::Poll => ("v1", "GET /messages"),
            Self::Pull => ("v1", "POST /v1/pull"),
            Self::Ack => ("v1", "POST /v1/ack"),
            Self::Status => ("v1", "POST /v1/status"),
            Self::Recent => ("v1", "POST /v1/recent"),
            Self::Query => ("v1", "POST /v1/messages/query"),
            Self::Receipt => ("v1", "POST /messages/{id}/ack"),
            Self::Upload => ("v1", UPLOAD),
            Self::Files => ("v1", FILES),
            Self::Withdraw => ("v1", WITHDRAW),
            Self::Unknown => ("v1", "other"),
            Self::V2Create => ("v2", "POST /v1/messages"),
            Self::V2Pull => ("v2", "POST /v1/pull"),
            Self::V2Ack => ("v2", "POST /v1/ack"),
            Self::V2Renew => ("v2", "POST /v1/lease/renew"),
            Self::V2Status => ("v2", "POST /v1/status"),
            Self::V2Recent => ("v2", "POST /v1/recent"),
            Self::V2Query => ("v2", "POST /v1/messages/query"),
            Self::V2Unfinished => ("v2", "POST /v1/admin/status"),
            Self::V2Requeue => ("v2", "POST /v1/admin/requeue"),
            Self::V2Cancel => ("v2", "POST /v1/admin/cancel"),
            Self::V2Upload => ("v2", UPLOAD),
            Self::V2Files => ("v2", FILES),
            Self::V2Withdraw => ("v2", WITHDRAW),
            Self::V2Unknown => ("v2", "other"),
        }
    }

    pub const fn of(route: &Route) -> Self {
        match route {
            Route::About => Self::About,
            Route::Health => Self::Health,
            Route::Metrics => Self::Metrics,
            Route::Register => Self::Register,
            Route::Peers => Self::Peers,
            Route::Send => Self::Send,
            Route::Poll { .. } => Self::Poll,
            Route::Pull => Self::Pull,
            Route::Ack => Self::Ack,
            Route::Status => Self::Status,
            Route::Recent => Self::Recent,
            Route::Query => Self::Query,
            Route::Receipt { .. } => Self::Receipt,
            Route::Parcel(ParcelRoute::Upload) => Self::Upload,
            Route::Parcel(ParcelRoute::Files(_)) => Self::Files,
            Route::Parcel(ParcelRoute::Withdraw(_)) => Self::Withdraw,
            Route::Unknown => Self::Unknown,
        }
    }

    pub const fn of_v2(route: Option<v2::route::Route>) -> Self {
        use v2::route::Route;
        match route {
            Some(Route::Create) => Self::V2Create,
            Some(Route::Pull) => Self::V2Pull,
            Some(Route::Ack) => Self::V2Ack,
            Some(Route::Renew) => Self::V2Renew,
            Some(Route::Status) => Self::V2Status,
            Some(Route::Recent) => Self::V2Recent,
            Some(Route::Query) => Self::V2Query,
            Some(Route::Unfinished) => Self::V2Unfinished,
            Some(Route::Requeue) => Self::V2Requeue,
            Some(Route::Cancel) => Self::V2Cancel,
            None => Self::V2Unknown,
        }
    }

    pub const fn of_parcel_v2(route: &ParcelRoute) -> Self {
        match route {
            ParcelRoute::Upload => Self::V2Upload,
            ParcelRoute::Files(_) => Self::V2Files,
            ParcelRoute::Withdraw(_) => Self::V2Withdraw,
        }
    }
}

/// How a request ended. Those whose client went away before the answer are not among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    Refused,
    /// Trouble of our own.
    Failed,
}

impl Outcome {
    const ALL: [Self; 3] = [Self::Done, Self::Refused, Self::Failed];

    const fn of(refused: Option<Code>) -> Self {
        match refused {
            None => Self::Done,
            Some(code) if code.status() < 500 => Self::Refused,
            Some(_) => Self::Failed,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

const REQUESTS: &str = "redsyn_broker_requests_total";
const REFUSALS: &str = "redsyn_broker_refusals_total";
const QUEUED: &str = "redsyn_broker_queued_messages";
const OLDEST: &str = "redsyn_broker_oldest_queued_seconds";
const LEASED: &str = "redsyn_broker_leased_messages";
const PULLING: &str = "redsyn_broker_pulling_agents";
const BODIES: &str = "redsyn_broker_body_bytes";
const COMMIT_CALLS: &str = "redsyn_broker_commit_calls";
const COMMIT_SECONDS: &str = "redsyn_broker_commit_seconds";
const COMMITS_FAILED: &str = "redsyn_broker_commits_failed_total";
const OUTBOX: &str = "redsyn_bridge_outbox_messages";
const HELD: &str = "redsyn_bridge_held_messages";

const UPLOAD: &str = "PUT /bridge/v1/files";
const FILES: &str = "GET /bridge/v1/messages/{id}/files";
const WITHDRAW: &str = "POST /bridge/v1/messages/{id}/cancel";

const GENERATION: &str = "generation";
const V1: Label = (GENERATION, "v1");
const V2: Label = (GENERATION, "v2");

/// What is counted while requests are answered.
#[derive(Debug, Default)]
pub struct Metrics {
    requests: Tally<{ Endpoint::ALL.len() * Outcome::ALL.len() }>,
    refusals: Tally<{ Code::ALL.len() }>,
}

/// What is looked at when somebody asks; of each generation, v1 first.
#[derive(Debug)]
pub struct Observed<'a> {
    pub loads: [Load; 2],
    /// How long the oldest has waited.
    pub ages: [Duration; 2],
    /// At how many agents a pull is held or under way.
    pub pulling: [usize; 2],
    /// How many bytes are reserved for bodies.
    pub bodies: usize,
    pub commits: &'a Commits,
    /// `None`: nothing is carried beyond this machine.
    pub carried: Option<Carried>,
}

/// What a carrier has in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// On its way out; what is held is among it.
    pub outbox: i64,
    pub held_out: i64,
    pub held_in: i64,
}

impl Metrics {
    pub fn answered(&self, endpoint: Endpoint, refused: Option<Code>) {
        self.requests.add(place(endpoint, Outcome::of(refused)), 1);
        if let Some(code) = refused {
            self.refusals.add(code as usize, 1);
        }
    }

    /// The text format of Prometheus.
    pub fn to_text(&self, observed: &Observed<'_>) -> String {
        let mut text = Text::default();
        self.requests(&mut text);
        let mut of_both = |name, help, values: [&dyn std::fmt::Display; 2]| {
            text.family(name, help, Kind::Gauge);
            for (generation, value) in [V1, V2].into_iter().zip(values) {
                text.sample(name, &[generation], value);
            }
        };
        let [v1, v2] = &observed.loads;
        of_both(QUEUED, "Messages that wait to be taken, counted to 100000", [&v1.queued, &v2.queued]);
        let [age, age_v2] = observed.ages.map(|age| age.as_secs_f64());
        of_both(OLDEST, "How long the oldest of them has waited, 0 without any", [&age, &age_v2]);
        of_both(LEASED, "Messages under a lease, counted to 100000", [&v1.leased, &v2.leased]);
        let [pulling, pulling_v2] = &observed.pulling;
        of_both(PULLING, "Agents whose pull is held or under way", [pulling, pulling_v2]);
        text.one(BODIES, "Memory reserved for the bodies of requests", Kind::Gauge, observed.bodies);
        let commits = observed.commits;
        text.histogram(COMMIT_CALLS, "Calls of the store that shared a commit", &commits.calls);
        text.durations(COMMIT_SECONDS, "How long a commit took, with the work in it", &commits.micros);
        text.one(COMMITS_FAILED, "Commits that kept nothing", Kind::Counter, commits.failed());
        if let Some(carried) = observed.carried {
            text.one(OUTBOX, "Messages on their way to another machine", Kind::Gauge, carried.outbox);
            text.family(HELD, "Messages that wait for a person to decide", Kind::Gauge);
            text.sample(HELD, &[("direction", "in")], carried.held_in);
            text.sample(HELD, &[("direction", "out")], carried.held_out);
        }
        text.into_string()
    }

    fn requests(&self, text: &mut Text) {
        text.family(REQUESTS, "Requests answered", Kind::Counter);
        for endpoint in Endpoint::ALL {
            let (generation, route) = endpoint.words();
            for outcome in Outcome::ALL {
                let labels = [(GENERATION, generation), ("route", route), ("outcome", outcome.word())];
                text.sample(REQUESTS, &labels, self.requests.get(place(endpoint, outcome)));
            }
        }
        text.family(REFUSALS, "Requests refused, by the code of the answer", Kind::Counter);
        for code in Code::ALL {
            text.sample(REFUSALS, &[("code", code.name())], self.refusals.get(code as usize));
        }
    }
}

const fn place(endpoint: Endpoint, outcome: Outcome) -> usize {
    endpoint as usize * Outcome::ALL.len() + outcome as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_endpoint_and_outcome_counts_for_itself() {
        let metrics = Metrics::default();
        for (at, endpoint) in Endpoint::ALL.into_iter().enumerate() {
            assert_eq!(endpoint as usize, at);
            for _ in 0..=at {
                metrics.answered(endpoint, None);
            }
        }
        assert_eq!(Endpoint::V2Unknown as usize + 1, Endpoint::ALL.len(), "the last one");
        metrics.answered(Endpoint::Unknown, Some(Code::NotFound));
        metrics.answered(Endpoint::Unknown, Some(Code::Busy));
        let observed = Observed {
            loads: [Load { queued: 3, leased: 2, oldest_queued: None }, Load::default()],
            ages: [Duration::from_millis(1500), Duration::ZERO],
            pulling: [1, 0],
            bodies: 4096,
            commits: &Commits::default(),
            carried: Some(Carried { outbox: 9, held_out: 8, held_in: 7 }),
        };
        let text = metrics.to_text(&observed);
        for (at, endpoint) in Endpoint::ALL.into_iter().enumerate() {
            let (generation, route) = endpoint.words();
            let line = format!(
                "redsyn_broker_requests_total{{generation=\"{generation}\",route=\"{route}\",outcome=\"done\"}} {}",
                at + 1
            );
            assert_eq!(text.lines().filter(|one| **one == line).count(), 1, "{line}");
        }
        for line in [
            "redsyn_broker_requests_total{generation=\"v1\",route=\"other\",outcome=\"refused\"} 1",
            "redsyn_broker_requests_total{generation=\"v1\",route=\"other\",outcome=\"failed\"} 1",
            "redsyn_broker_refusals_total{code=\"not_found\"} 1",
            "redsyn_broker_refusals_total{code=\"busy\"} 1",
            "redsyn_broker_refusals_total{code=\"locked\"} 0",
            "redsyn_broker_queued_messages{generation=\"v1\"} 3",
            "redsyn_broker_oldest_queued_seconds{generation=\"v1\"} 1.5",
            "redsyn_broker_leased_messages{generation=\"v1\"} 2",
            "redsyn_broker_pulling_agents{generation=\"v1\"} 1",
            "redsyn_broker_pulling_agents{generation=\"v2\"} 0",
            "redsyn_broker_body_bytes 4096",
            "redsyn_bridge_outbox_messages 9",
            "redsyn_bridge_held_messages{direction=\"in\"} 7",
            "redsyn_bridge_held_messages{direction=\"out\"} 8",
        ] {
            assert!(text.lines().any(|one| one == line), "no {line} in\n{text}");
        }
    }
}
