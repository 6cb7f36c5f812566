//! `status`, `held`, `outbox`, `trace`, `reload`: what a node does and what waits, each with the next step.

use std::process::ExitCode;

use serde_json::Value;

use super::ask::{self, Asked};
use super::called;
use super::table::{flag, list, messages, number, table, text};
use crate::runtime::operator::Request;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub asked: Asked,
}

#[derive(Debug, clap::Args)]
pub struct TraceArgs {
    /// The message's id, here or at the relay
    pub id: String,
    #[command(flatten)]
    pub asked: Asked,
}

pub fn status(args: &Args) -> ExitCode {
    ask::run(&args.asked, &Request::Status, status_text)
}

pub fn held(args: &Args) -> ExitCode {
    ask::run(&args.asked, &Request::Held, held_text)
}

pub fn outbox(args: &Args) -> ExitCode {
    ask::run(&args.asked, &Request::Outbox, outbox_text)
}

pub fn trace(args: &TraceArgs) -> ExitCode {
    ask::run(&args.asked, &Request::Trace { id: args.id.clone() }, trace_text)
}

pub fn reload(args: &Args) -> ExitCode {
    ask::run(&args.asked, &Request::Reload, reload_text)
}

fn status_text(answer: &Value) -> String {
    let mut out = format!("redsyn-bridge {} ", text(answer, "version"));
    let mut rows = Vec::new();
    let mut row = |name: &str, what: String| rows.push(vec![name.to_owned(), what]);
    let empty = Value::Null;
    let (broker, relay) = (answer.get("broker").unwrap_or(&empty), answer.get("relay").unwrap_or(&empty));
    if flag(answer, "running") {
        out += &format!("is running (process {})\n", number(answer, "process"));
        row("broker", format!("{} ({} store)", text(broker, "address"), text(broker, "storage")));
    } else {
        out += &format!("is not running; start it with `{}`\n", called("serve"));
    }
    row("relay", relay_line(relay, flag(answer, "running")));
    for lack in list(relay, "lacks") {
        let what = if lack.get("agent").is_some() { text(lack, "agent") } else { text(lack, "call") };
        row("", format!("lacks {what}: {}", text(lack, "why")));
    }
    let held = answer.get("held").unwrap_or(&empty);
    let (inbound, outbound) = (number(held, "inbound"), number(held, "outbound"));
    let waiting = number(answer, "outbox");
    row("outbox", format!("{} waiting{}", messages(waiting), step(waiting > 0, "outbox")));
    let both = format!("{} from outside, {outbound} of the outbox", messages(inbound));
    row("held", format!("{both}{}", step(inbound + outbound > 0, "held")));
    out += &table(&rows);
    let agents = list(answer, "agents");
    if !agents.is_empty() {
        out += "agents\n";
        let line = |agent: &Value| {
            let alive = match (flag(agent, "alive"), text(agent, "lastSeen")) {
                (true, _) => "alive".to_owned(),
                (false, seen) if seen.is_empty() => "never seen".to_owned(),
                (false, seen) => format!("last seen {seen}"),
            };
            vec![text(agent, "name"), text(agent, "address"), alive]
        };
        out += &table(&agents.iter().map(line).collect::<Vec<_>>());
    }
    out
}

fn relay_line(relay: &Value, running: bool) -> String {
    let (mode, url, since, why) =
        (text(relay, "mode"), text(relay, "url"), text(relay, "since"), text(relay, "why"));
    match mode.as_str() {
        "none" => "none: a plain local broker".to_owned(),
        "off" => "off: nothing leaves this machine".to_owned(),
        _ if !running && url.is_empty() => format!("{mode}; nothing runs"),
        _ if !running => format!("{url}; nothing runs"),
        _ if flag(relay, "connected") => format!("{url} ({mode}), connected since {since}"),
        _ if text(relay, "state") == "down" => format!("{url} ({mode}), not connected since {since}: {why}"),
        _ => format!("{url} ({mode}), not connected: {why}"),
    }
}

/// The command to look further with, when there is something to see.
fn step(is_worth_it: bool, command: &str) -> String {
    if is_worth_it { format!("; see `{}`", called(command)) } else { String::new() }
}

pub(super) fn held_text(answer: &Value) -> String {
    let (inbound, outbound) = (list(answer, "inbound"), list(answer, "outbound"));
    if inbound.is_empty() && outbound.is_empty() {
        return "nothing is held\n".to_owned();
    }
    let mut out = String::new();
    if !inbound.is_empty() {
        out += "from outside, neither delivered nor acked:\n";
        let line = |held: &Value| {
            vec![
                text(held, "id"),
                format!("for {}", text(held, "agent")),
                format!("since {}", text(held, "since")),
                text(held, "why"),
            ]
        };
        out += &table(&inbound.iter().map(line).collect::<Vec<_>>());
    }
    if !outbound.is_empty() {
        out += "in the outbox:\n";
        let line = |held: &Value| {
            vec![
                text(held, "id"),
                format!("to {}", text(held, "to")),
                format!("until {}", text(held, "expires")),
                text(held, "why"),
            ]
        };
        out += &table(&outbound.iter().map(line).collect::<Vec<_>>());
    }
    let mut steps: Vec<String> = Vec::new();
    for held in inbound.iter().chain(outbound) {
        let person = text(held, "person");
        let decide = match (text(held, "fingerprint"), held.get("to").is_some()) {
            (print, _) if flag(held, "confirm") => format!("keys confirm {person} {print}"),
            (print, _) if !print.is_empty() => format!("keys accept {person} {print}"),
            (_, true) => format!("keys allow-plain {person}"),
            (_, false) => format!("keys allow-unsigned {person}"),
        };
        for step in [decide, format!("keys reject {person}")] {
            let step = format!("  {}\n", called(&step));
            if !steps.contains(&step) {
                steps.push(step);
            }
        }
    }
    out + "next, once you have asked the person:\n" + &steps.concat()
}

fn outbox_text(answer: &Value) -> String {
    let waiting = list(answer, "outbox");
    if waiting.is_empty() {
        return "the outbox is empty\n".to_owned();
    }
    let line = |one: &Value| {
        let next = text(one, "nextTry");
        let next = if next.is_empty() { "waits".to_owned() } else { format!("next try {next}") };
        let tries = format!("{} tries", number(one, "attempts"));
        vec![
            text(one, "id"),
            text(one, "kind"),
            format!("to {}", text(one, "to")),
            tries,
            next,
            text(one, "why"),
        ]
    };
    let mut out = table(&waiting.iter().map(line).collect::<Vec<_>>());
    let next = if waiting.iter().any(|one| flag(one, "held")) { "held" } else { "status" };
    out += &format!("next: `{}`\n", called(next));
    out
}

fn trace_text(answer: &Value) -> String {
    let empty = Value::Null;
    let mut out = String::new();
    for message in list(answer, "messages") {
        let (local, redsyn) =
            (message.get("local").unwrap_or(&empty), message.get("redsyn").unwrap_or(&empty));
        let mut rows = Vec::new();
        let mut row = |name: &str, what: String| {
            if !what.is_empty() {
                rows.push(vec![name.to_owned(), what]);
            }
        };
        out += &format!("{}\n", text(message, "localId"));
        if redsyn.is_object() {
            row("at the relay", text(redsyn, "id"));
            let way = if text(redsyn, "direction") == "in" { "from" } else { "to" };
            let remote = format!("{} {way} {}", text(redsyn, "kind"), text(redsyn, "remote"));
            row("crossed", remote);
            row("thread", text(redsyn, "thread"));
        }
        if local.is_object() {
            row(
                "here",
                format!("{} from {} to {}", text(local, "kind"), text(local, "from"), text(local, "to")),
            );
            row("status", text(local, "status"));
            for (stage, at) in local.get("stages").and_then(Value::as_object).into_iter().flatten() {
                row(stage, at.as_str().unwrap_or_default().to_owned());
            }
        }
        if let Some(waiting) = message.get("outbox").filter(|waiting| waiting.is_object()) {
            row("outbox", text(waiting, "why"));
            row("next try", text(waiting, "nextTry"));
        }
        if let Some(held) = message.get("held").filter(|held| held.is_object()) {
            row(
                "held",
                format!("since {}: {}; see `{}`", text(held, "since"), text(held, "why"), called("held")),
            );
        }
        out += &table(&rows);
    }
    out
}

fn reload_text(answer: &Value) -> String {
    let agents = list(answer, "agents");
    let mut out = format!("reloaded: {} configured agents", number(answer, "configured"));
    if answer.get("agents").is_some() {
        out += &format!(", {} with an address, {} contacts", agents.len(), number(answer, "contacts"));
    }
    out += "\n";
    let line = |agent: &Value| vec![text(agent, "name"), text(agent, "address")];
    out += &table(&agents.iter().map(line).collect::<Vec<_>>());
    if answer.get("announced").is_some() && !flag(answer, "announced") {
        out += &format!(
            "the relay has not been told yet: {}; see `{}`\n",
            text(answer, "why"),
            called("status")
        );
    }
    for warning in list(answer, "warnings") {
        out += &format!("warning: {}\n", warning.as_str().unwrap_or_default());
    }
    out
}
