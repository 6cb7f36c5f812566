//! Two bridges, and the one crash that an exchange between them must live through.

use std::sync::Arc;
use std::time::Duration;

use redsyn_bridge::redsyn_client::RelayClient;

use super::peer::{HANG, Letter, Mail, Peer, Speaks};
use super::{Leg, Moment};
use crate::support::world::{Member, World};

/// Longer than the 900 s of a take.
pub const PAST_THE_LEASE: Duration = Duration::from_secs(901);

/// Where in an exchange a bridge is killed.
#[derive(Clone, Copy, Debug)]
pub struct Crash {
    pub leg: Leg,
    pub moment: Moment,
}

/// Which bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that asks.
    Close,
    /// The one that answers.
    Billing,
}

impl Side {
    const fn other(self) -> Self {
        match self {
            Self::Close => Self::Billing,
            Self::Billing => Self::Close,
        }
    }
}

#[derive(Debug)]
pub struct Scene {
    pub world: World,
    pub close: Peer,
    pub billing: Peer,
    pub crash: Crash,
    /// Whether the crash has been.
    crashed: bool,
}

impl Scene {
    pub async fn new(storage: &str, (close, billing): (Speaks, Speaks), crash: Crash) -> Self {
        let world = World::new().await;
        let close = Peer::start(&world, storage, &world.ana, &world.bob, close).await;
        let billing = Peer::start(&world, storage, &world.bob, &world.ana, billing).await;
        close.join().await;
        Self { world, close, billing, crash, crashed: false }
    }

    pub fn peer(&mut self, side: Side) -> &mut Peer {
        match side {
            Side::Close => &mut self.close,
            Side::Billing => &mut self.billing,
        }
    }

    /// Who is killed in a leg that `sender` sends; `None` when the crash is in another one.
    fn victim(&self, leg: Leg, sender: Side) -> Option<Side> {
        let Crash { leg: cut, moment } = self.crash;
        (cut == leg).then(|| if moment.is_of_the_sender() { sender } else { sender.other() })
    }

    /// Before whatever begins the leg that `sender` sends.
    pub fn begin(&mut self, leg: Leg, sender: Side) {
        let moment = self.crash.moment;
        if let Some(victim) = self.victim(leg, sender) {
            self.peer(victim).stop_at(moment);
        }
    }

    /// The moment has come.
    pub async fn reached(&mut self, leg: Leg, sender: Side) {
        let is_within_a_call = self.crash.moment.stop().is_some();
        if let Some(victim) = self.victim(leg, sender).filter(|_| is_within_a_call) {
            self.peer(victim).stopped().await;
        }
    }

    /// Kills the bridge, moves time on where a lease may be out, and starts it again.
    pub async fn strike(&mut self, leg: Leg, sender: Side) {
        let Some(victim) = self.victim(leg, sender) else { return };
        self.peer(victim).bridge.kill();
        self.gone(victim).await;
        if !self.crash.moment.is_of_the_sender() {
            self.world.clock.advance(PAST_THE_LEASE);
        }
        self.peer(victim).restart().await;
        self.crashed = true;
    }

    /// Waits until the relay has noticed that nobody waits for the answer to the victim's take any more: else it would
    /// put mail into it, and that is another crash.
    async fn gone(&mut self, victim: Side) {
        let gone = async {
            while self.peer(victim).proxy.takes() > 0
                || self.world.service.held_mailboxes() > self.peer(victim.other()).proxy.takes()
            {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(HANG, gone).await.expect("the relay holds a call of the dead");
    }

    /// A crash at a moment that is no call.
    pub async fn strike_at(&mut self, moment: Moment, leg: Leg, sender: Side) {
        if self.crash.moment == moment {
            self.strike(leg, sender).await;
        }
    }

    /// Sends both in one conversation. The crash, if it is in this leg, is in the midst of the first, and the second
    /// waits behind it. Gives the ids.
    pub async fn send_both(&mut self, leg: Leg, sender: Side, letters: [Letter; 2]) -> [String; 2] {
        let [first, mut second] = letters;
        self.begin(leg, sender);
        let first = self.peer(sender).send(&first).await;
        self.reached(leg, sender).await;
        if second.parent.is_none() {
            second.root = Some(first.clone());
        }
        let second = self.peer(sender).send(&second).await;
        if !self.crashed && self.crash.moment.stop().is_some() {
            self.strike(leg, sender).await;
        }
        [first, second]
    }

    /// The other side takes what was sent, in the order in which it was, under the ids and with the texts it was.
    pub async fn take_both(&mut self, sender: Side, ids: &[String; 2], texts: [&str; 2]) -> [Mail; 2] {
        let first = self.take_one(sender.other(), &ids[0], texts[0]).await;
        let second = self.take_one(sender.other(), &ids[1], texts[1]).await;
        [first, second]
    }

    pub async fn take_one(&mut self, taker: Side, id: &str, text: &str) -> Mail {
        let peer = self.peer(taker);
        let mail = peer.take().await;
        assert_eq!((mail.id.as_str(), mail.text.as_str()), (id, text), "{mail:#?}");
        peer.ack(&mail, "completed").await;
        mail
    }

    /// Whatever the relay would still deliver, it delivers now; and it is nothing.
    pub async fn end(&mut self) {
        assert!(self.crashed, "the exchange has no such leg");
        self.world.clock.advance(PAST_THE_LEASE);
        for member in [&self.world.ana, &self.world.bob] {
            self.drained(member).await;
        }
        self.close.has_no_more().await;
        self.billing.has_no_more().await;
    }

    /// How many messages the relay has in a thread.
    pub async fn in_thread(&self, id: &str) -> usize {
        let thread = self.relay(&self.world.ana).get(&format!("/threads/{id}")).await.unwrap();
        thread["items"].as_array().unwrap().len()
    }

    pub fn relay(&self, member: &Member) -> RelayClient {
        member.relay(&self.world.url(), Arc::new(self.world.clock.clone()))
    }

    /// Waits until nothing waits at the relay for the member's agent: its bridge has acked everything.
    pub async fn drained(&self, member: &Member) {
        let client = self.relay(member);
        let empty = async {
            // `peek` neither takes nor counts as a sign of life.
            let path = format!("/inbox/{}?peek=1", member.address());
            while !client.get(&path).await.unwrap()["items"].as_array().unwrap().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(HANG, empty).await.expect("mail stays at the relay");
    }
}
