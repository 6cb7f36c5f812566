//! REDSYN v1: addresses, envelopes, what a signature covers, policies, and the keys of nodes.

pub mod address;
pub mod body;
mod delivered;
pub mod email;
pub mod envelope;
pub mod error;
pub mod ids;
pub mod keys;
pub mod name;
pub mod policy;
pub mod short_address;
pub mod signed;
mod text_form;
