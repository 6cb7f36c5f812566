//! The protocol's document, sentence by sentence, against any relay: see docs/conformance.md. A case speaks HTTP with
//! a few tokens and nothing else, under names of its own, so that it can run again and again on a relay that is kept.
//! Without a relay named in the environment, each case starts one of ours.
//!
//! Where the document gives a status, every relay must give it. Where it does not, ours must give the one that stands
//! in the case, and another relay any from 400 to 499.

mod agents;
mod encryption;
mod fake_relay;
mod inbox;
mod limits;
mod links;
mod messages;
mod mini_agent;
mod nodes;
mod orgs;
mod policy;
mod relay;
mod sessions;
mod signatures;
mod topics;
mod versions;
mod webhooks;
