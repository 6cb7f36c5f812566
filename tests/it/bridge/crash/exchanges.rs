//! What the two sides do, with a crash in the midst of one leg of it. Each goes on after the crash as if there had been
//! none: an agent does not know.

use serde_json::json;

use super::peer::{Letter, Mail, Speaks};
use super::scene::{PAST_THE_LEASE, Scene, Side};
use super::{Leg, Moment};
use crate::support::zips::{member_of, zip_of};

#[derive(Clone, Copy, Debug)]
pub enum Exchange {
    /// Two questions in one conversation, and their answers.
    Question,
    /// A question with a zip and a body too long for an envelope, and one that waits behind it.
    Files,
    /// A subscription and two events.
    Topic,
    /// Word of the work twice, then the answer.
    Progress,
    /// The agent gives a request back until that is too often.
    GivenBack,
    /// Nobody takes a request, and the relay says so.
    Untaken,
    /// The relay does not take a request, and the sender's own bridge says so.
    Refused,
    /// The sender takes a request back that nobody has taken.
    Withdrawn,
    /// The sender has another key, and a person accepts it.
    Held,
}

impl Exchange {
    pub async fn run(self, mut scene: Scene) {
        let to = scene.world.bob.address();
        match self {
            Self::Question => question(&mut scene, to).await,
            Self::Files => files(&mut scene, to).await,
            Self::Topic => topic(&mut scene).await,
            Self::Progress => progress(&mut scene, to).await,
            Self::GivenBack => given_back(&mut scene, to).await,
            Self::Untaken => untaken(&mut scene, to).await,
            Self::Refused => refused(&mut scene).await,
            Self::Withdrawn => withdrawn(&mut scene, to).await,
            Self::Held => held(&mut scene, to).await,
        }
        scene.end().await;
    }
}

fn request(to: &str, text: &str) -> Letter {
    Letter { kind: "request", to: to.to_owned(), text: text.to_owned(), ..Letter::default() }
}

fn answer(kind: &'static str, to: &Mail, text: &str) -> Letter {
    Letter {
        kind,
        to: to.from.clone(),
        text: text.to_owned(),
        parent: Some(to.id.clone()),
        ..Letter::default()
    }
}

async fn question(scene: &mut Scene, to: String) {
    scene.billing.join().await;
    let texts = ["once?", "and this once?"];
    let ids = scene.send_both(Leg::Request, Side::Close, texts.map(|text| request(&to, text))).await;
    let asked = scene.take_both(Side::Close, &ids, texts).await;
    let texts = ["once.", "that too."];
    let replies = [answer("reply", &asked[0], texts[0]), answer("reply", &asked[1], texts[1])];
    let reply_ids = scene.send_both(Leg::Reply, Side::Billing, replies).await;
    let answers = scene.take_both(Side::Billing, &reply_ids, texts).await;
    for (answer, id) in answers.iter().zip(&ids) {
        assert_eq!(answer.parent.as_deref(), Some(id.as_str()));
        assert_eq!(scene.close.status(id).await, "done");
    }
    assert_eq!(scene.in_thread(&ids[0]).await, 4);
}

async fn files(scene: &mut Scene, to: String) {
    scene.billing.join().await;
    let noise: Vec<u8> = (0..200_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let zip = zip_of(&[("noise", &noise)]);
    let uploaded = scene.close.bridge.client.put_bytes("/bridge/v1/files", zip.clone()).await.unwrap();
    scene.strike_at(Moment::AfterTheUpload, Leg::Request, Side::Close).await;
    let long = "a row of many, ".repeat(10_000);
    let first = Letter { redsyn: Some(json!({"files": uploaded["file"]})), ..request(&to, &long) };
    let ids = scene.send_both(Leg::Request, Side::Close, [first, request(&to, "and?")]).await;
    let asked = scene.take_both(Side::Close, &ids, [&long, "and?"]).await;
    let path = format!("/bridge/v1/messages/{}/files", ids[0]);
    let fetched = scene.billing.bridge.client.get_bytes(&path).await.unwrap();
    assert!(member_of(&fetched, "noise") == noise);
    assert!(scene.close.bridge.client.get_bytes(&path).await.unwrap() == zip);
    let reply = scene.billing.send(&answer("reply", &asked[0], "got them")).await;
    scene.take_one(Side::Close, &reply, "got them").await;
    assert_eq!(scene.close.status(&ids[0]).await, "done");
}

async fn topic(scene: &mut Scene) {
    let exposure = json!({"kind": "sub", "pattern": "finance/invoices", "on": true});
    scene.relay(&scene.world.ana).put("/orgs/acme/links/globex/expose", &exposure).await.unwrap();
    scene.begin(Leg::Subscription, Side::Close);
    let listening = "      topics: ['topic:acme/finance/invoices']\n      allow:";
    scene.billing.bridge.reconfigure("      allow:", listening);
    scene.reached(Leg::Subscription, Side::Close).await;
    scene.strike(Leg::Subscription, Side::Close).await;
    scene.billing.join().await;
    scene.billing.bridge.log_of("relay_link_up").await;

    let texts = ["invoice 7", "invoice 8"];
    let events = texts.map(|text| Letter { kind: "message", ..request("topic:finance/invoices", text) });
    let ids = scene.send_both(Leg::Event, Side::Close, events).await;
    for event in scene.take_both(Side::Close, &ids, texts).await {
        let redsyn = &event.redsyn;
        assert_eq!((&redsyn["kind"], &redsyn["verified"]), (&json!("event"), &json!(true)));
        assert_eq!(event.from, scene.world.ana.address());
    }
    assert_eq!(scene.close.status(&ids[0]).await, "done");
}

async fn progress(scene: &mut Scene, to: String) {
    scene.billing.join().await;
    let id = scene.close.send(&request(&to, "how far?")).await;
    let asked = scene.take_one(Side::Billing, &id, "how far?").await;
    let texts = ["a third", "two thirds"];
    let words = texts.map(|text| answer("message", &asked, text));
    let ids = scene.send_both(Leg::Progress, Side::Billing, words).await;
    let reply = scene.billing.send(&answer("reply", &asked, "done")).await;
    for mail in scene.take_both(Side::Billing, &ids, texts).await {
        assert_eq!((mail.kind.as_str(), mail.parent.as_deref()), ("message", Some(id.as_str())));
    }
    let answer = scene.take_one(Side::Close, &reply, "done").await;
    assert_eq!((answer.kind.as_str(), answer.parent.as_deref()), ("reply", Some(id.as_str())));
    assert_eq!(scene.close.status(&id).await, "done");
    assert_eq!(scene.in_thread(&id).await, 4);
}

/// How often a broker gives a message out at the most, unless it is told otherwise.
const fn takes(speaks: Speaks) -> usize {
    match speaks {
        Speaks::V1 => 4,
        Speaks::V2 => 3,
    }
}

async fn given_back(scene: &mut Scene, to: String) {
    scene.billing.join().await;
    let id = scene.close.send(&request(&to, "again?")).await;
    let next = scene.close.send(&Letter { root: Some(id.clone()), ..request(&to, "and this?") }).await;
    // The crash is on the way of the error reply: what was taken and not kept would come after its lease.
    scene.close.left(&next).await;
    scene.drained(&scene.world.bob).await;
    scene.begin(Leg::ErrorReply, Side::Billing);
    let takes = takes(scene.billing.speaks);
    for _ in 0..takes {
        let mail = scene.billing.take().await;
        assert_eq!(mail.id, id);
        scene.billing.ack(&mail, "retry").await;
    }
    scene.reached(Leg::ErrorReply, Side::Billing).await;
    scene.strike(Leg::ErrorReply, Side::Billing).await;
    // The one behind it may have been on its way to the dead.
    scene.world.clock.advance(PAST_THE_LEASE);
    error_notice(scene, &id, &format!("not delivered: {to} took it {takes} times")).await;
    let asked = scene.take_one(Side::Billing, &next, "and this?").await;
    let reply = scene.billing.send(&answer("reply", &asked, "yes")).await;
    scene.take_one(Side::Close, &reply, "yes").await;
    assert_eq!(scene.in_thread(&id).await, 4);
}

/// The one word that the sender of a request gets of its failure.
async fn error_notice(scene: &mut Scene, id: &str, text: &str) {
    let notice = scene.close.take().await;
    assert_eq!((notice.kind.as_str(), notice.parent.as_deref()), ("reply", Some(id)));
    assert!(notice.text.contains(text), "{notice:#?}");
    if scene.close.speaks == Speaks::V1 {
        assert_eq!(notice.redsyn["error"], json!(true), "{notice:#?}");
    }
    scene.close.ack(&notice, "completed").await;
    assert_eq!(scene.close.status(id).await, "failed");
}

async fn untaken(scene: &mut Scene, to: String) {
    // Its agent is not there, so its bridge takes nothing.
    let texts = ["anybody?", "nobody?"];
    let ids = scene.send_both(Leg::Request, Side::Close, texts.map(|text| request(&to, text))).await;
    for id in &ids {
        scene.close.left(id).await;
    }
    scene.begin(Leg::Notice, Side::Billing);
    scene.world.clock.advance(PAST_THE_TTL);
    scene.reached(Leg::Notice, Side::Billing).await;
    scene.strike(Leg::Notice, Side::Billing).await;
    for id in &ids {
        error_notice(scene, id, &format!("not delivered: it expired before {to} took it")).await;
    }
    scene.billing.join().await;
}

/// Longer than the 24 hours that a message has which says nothing else.
const PAST_THE_TTL: std::time::Duration = std::time::Duration::from_secs(24 * 3600 + 1);

async fn refused(scene: &mut Scene) {
    scene.billing.join().await;
    let nobody = "globex/erp/bob/nobody";
    let texts = ["anybody?", "nobody?"];
    let ids = scene.send_both(Leg::Request, Side::Close, texts.map(|text| request(nobody, text))).await;
    for id in &ids {
        error_notice(scene, id, "not delivered: ").await;
    }
}

async fn withdrawn(scene: &mut Scene, to: String) {
    // Its agent is not there, so its bridge takes nothing.
    let texts = ["never mind", "this one, please"];
    let ids = scene.send_both(Leg::Request, Side::Close, texts.map(|text| request(&to, text))).await;
    for id in &ids {
        scene.close.left(id).await;
    }
    scene.begin(Leg::Withdrawal, Side::Close);
    let cut_short = tokio::spawn(scene.close.cancel(&ids[0]));
    scene.reached(Leg::Withdrawal, Side::Close).await;
    scene.strike(Leg::Withdrawal, Side::Close).await;
    assert!(!cut_short.await.unwrap());
    assert!(scene.close.cancel(&ids[0]).await, "whoever got no answer asks again");
    assert_eq!(scene.close.status(&ids[0]).await, "failed");
    let asked = scene.take_one(Side::Billing, &ids[1], texts[1]).await;
    let reply = scene.billing.send(&answer("reply", &asked, "at once")).await;
    scene.take_one(Side::Close, &reply, "at once").await;
    assert_eq!(scene.close.status(&ids[1]).await, "done");
}

async fn held(scene: &mut Scene, to: String) {
    scene.billing.join().await;
    let id = scene.close.send(&request(&to, "first")).await;
    scene.take_one(Side::Billing, &id, "first").await;
    scene.close.command(&["keys", "rotate"]).await;

    let zip = zip_of(&[("a", b"the file")]);
    let uploaded = scene.close.bridge.client.put_bytes("/bridge/v1/files", zip.clone()).await.unwrap();
    let second = Letter { redsyn: Some(json!({"files": uploaded["file"]})), ..request(&to, "second") };
    scene.begin(Leg::Hold, Side::Close);
    let second = scene.close.send(&second).await;
    scene.reached(Leg::Hold, Side::Close).await;
    scene.strike(Leg::Hold, Side::Close).await;
    let third = scene.close.send(&Letter { root: Some(second.clone()), ..request(&to, "third") }).await;
    scene.billing.bridge.log_of("inbound_held").await;
    if scene.crash.moment == Moment::AfterTheHold {
        scene.strike(Leg::Release, Side::Close).await;
    }
    scene.begin(Leg::Release, Side::Close);
    scene.billing.command(&["keys", "accept", "acme/ana"]).await;
    if scene.crash.moment != Moment::AfterTheHold {
        scene.reached(Leg::Release, Side::Close).await;
        scene.strike(Leg::Release, Side::Close).await;
    }
    let asked = scene.take_one(Side::Billing, &second, "second").await;
    let path = format!("/bridge/v1/messages/{second}/files");
    assert_eq!(scene.billing.bridge.client.get_bytes(&path).await.unwrap(), zip);
    if scene.crash.moment == Moment::AfterTheHold {
        // Taken before the crash, or behind what was held, it comes again after its lease.
        scene.world.clock.advance(PAST_THE_LEASE);
    }
    scene.take_one(Side::Billing, &third, "third").await;
    let reply = scene.billing.send(&answer("reply", &asked, "confirmed")).await;
    scene.take_one(Side::Close, &reply, "confirmed").await;
    assert_eq!(scene.close.status(&second).await, "done");
}
