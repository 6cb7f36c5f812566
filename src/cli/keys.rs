//! `redsyn-bridge keys …`: this node's keys, and decisions about those of others.

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::Value;

use super::ask::{self, Asked};
use super::called;
use super::look::held_text;
use super::table::{flag, list, number, table, text};
use crate::proto::redsyn::address::Person;
use crate::runtime::operator::{Request, Whom};

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub asked: Asked,
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Debug, Subcommand)]
enum KeysCommand {
    /// This node's fingerprint and public keys
    Show,
    /// Make new keys and register them in place of the old ones
    Rotate,
    /// The keys by which others are known here
    Pins,
    /// Trust another key of a person; what waits for it goes on
    Accept {
        /// org/user
        person: Person,
        /// Needed when mail waits for several keys
        fingerprint: Option<String>,
    },
    /// Drop what is held of and for a person; the senders are told
    Reject {
        /// org/user
        person: Person,
    },
    /// Note that you have compared the fingerprint with the person
    Confirm {
        /// org/user
        person: Person,
        fingerprint: String,
    },
    /// Let plain text go to an address, or to all of a person, that had a key
    AllowPlain {
        /// org/team/user/agent, or org/user
        who: Whom,
    },
    /// Take unsigned mail of a person with a pinned key
    AllowUnsigned {
        /// org/user
        person: Person,
    },
}

pub fn run(args: &Args) -> ExitCode {
    let (request, text): (Request, fn(&Value) -> String) = match &args.command {
        KeysCommand::Show => (Request::KeysShow, show_text),
        KeysCommand::Rotate => (Request::KeysRotate, rotate_text),
        KeysCommand::Pins => (Request::KeysPins, pins_text),
        KeysCommand::Accept { person, fingerprint } => {
            (Request::KeysAccept { person: person.clone(), fingerprint: fingerprint.clone() }, accept_text)
        }
        KeysCommand::Reject { person } => (Request::KeysReject { person: person.clone() }, reject_text),
        KeysCommand::Confirm { person, fingerprint } => {
            (Request::KeysConfirm { person: person.clone(), fingerprint: fingerprint.clone() }, confirm_text)
        }
        KeysCommand::AllowPlain { who } => (Request::KeysAllowPlain { who: who.clone() }, plain_text),
        KeysCommand::AllowUnsigned { person } => {
            (Request::KeysAllowUnsigned { person: person.clone() }, unsigned_text)
        }
    };
    ask::run(&args.asked, &request, text)
}

fn show_text(answer: &Value) -> String {
    let rows: Vec<Vec<String>> =
        [("fingerprint", "fingerprint"), ("signing key", "signingKey"), ("seal key", "encKey")]
            .map(|(name, key)| vec![name.to_owned(), text(answer, key)])
            .to_vec();
    let mut out = table(&rows);
    if let Some(next) = answer.get("next") {
        out += &format!("new keys wait for the relay: {}\n", text(next, "fingerprint"));
    }
    out + "next: tell others your fingerprint, so that they can compare it with what they see\n"
}

fn rotate_text(answer: &Value) -> String {
    let print = text(answer, "fingerprint");
    if flag(answer, "rotated") {
        return format!(
            "the relay has the new keys: {print}\nthe old ones are kept in node.key.old, to open mail that was \
             sealed for them\nnext: tell others; who has pinned the old key holds your mail until they accept the new one\n"
        );
    }
    format!(
        "new keys are made and wait in node.key.next: {print}\nthe relay does not have them yet: {}\nnext: nothing \
         to do; they are registered when the relay answers\n",
        text(answer, "why")
    )
}

fn pins_text(answer: &Value) -> String {
    let pins = list(answer, "pins");
    if pins.is_empty() {
        return "nobody's key is pinned yet: the first one seen of a person is\n".to_owned();
    }
    let line = |pin: &Value| {
        let verified = if flag(pin, "verified") { "verified" } else { "unverified" };
        let unsigned = if flag(pin, "unsigned") { "unsigned mail is taken, too" } else { "" };
        vec![
            text(pin, "person"),
            text(pin, "fingerprint"),
            verified.to_owned(),
            format!("since {}", text(pin, "since")),
            unsigned.to_owned(),
        ]
    };
    let mut out = table(&pins.iter().map(line).collect::<Vec<_>>());
    if pins.iter().any(|pin| !flag(pin, "verified")) {
        let confirm = called("keys confirm <org/user> <fingerprint>");
        out += &format!("next: compare a fingerprint with the person, then `{confirm}`\n");
    }
    match answer.get("held") {
        Some(held) if !list(held, "inbound").is_empty() || !list(held, "outbound").is_empty() => {
            out + &held_text(held)
        }
        _ => out,
    }
}

fn accept_text(answer: &Value) -> String {
    let (person, print) = (text(answer, "person"), text(answer, "fingerprint"));
    let confirm = called(&format!("keys confirm {person} {print}"));
    format!(
        "accepted for {person}: {print}\n{}next: once you have compared it with {person}: `{confirm}`\n",
        released(answer)
    )
}

fn reject_text(answer: &Value) -> String {
    let rejected = answer.get("rejected").unwrap_or(&Value::Null);
    format!(
        "rejected: {} from {person} (answered with an error), {} to {person} (failed with key_changed)\n",
        number(rejected, "inbound"),
        number(rejected, "outbound"),
        person = text(answer, "person"),
    )
}

fn confirm_text(answer: &Value) -> String {
    let (person, print) = (text(answer, "person"), text(answer, "fingerprint"));
    format!("verified: {print} is a key of {person}\n{}", released(answer))
}

fn plain_text(answer: &Value) -> String {
    let who = text(answer, "who");
    format!("plain text may go to {who} until it has a key again\n{}", released(answer))
}

fn unsigned_text(answer: &Value) -> String {
    format!("unsigned mail of {} is taken from now on\n{}", text(answer, "person"), released(answer))
}

fn released(answer: &Value) -> String {
    let released = answer.get("released").unwrap_or(&Value::Null);
    match (number(released, "inbound"), number(released, "outbound")) {
        (0, 0) => String::new(),
        (inbound, outbound) => format!("set free: {inbound} from outside, {outbound} in the outbox\n"),
    }
}
