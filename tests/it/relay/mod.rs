//! The relay over real HTTP, section by section of the protocol: what it answers, and above all what it refuses.

mod access;
mod agents;
mod command;
mod config;
mod inbox;
mod keys;
mod limits;
mod links;
mod mailbox_model;
mod messages;
mod operator;
mod signatures;
mod target;
mod time;
