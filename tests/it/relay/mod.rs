//! The relay over real HTTP, section by section of the protocol: what it answers, and above all what it refuses.

mod abuse;
mod access;
mod agents;
mod command;
mod config;
mod crash;
mod damaged;
mod docs;
mod event_model;
mod full_disk;
mod inbox;
mod keys;
mod limits;
mod links;
mod mailbox_model;
mod messages;
mod operator;
mod orgs;
mod retention;
mod sessions;
mod signatures;
mod target;
mod time;
mod tls;
mod topics;
mod webhooks;
