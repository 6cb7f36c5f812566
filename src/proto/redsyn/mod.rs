//! REDSYN v1: addresses, what a signature covers, and the keys of nodes.

pub mod address;
mod delivered;
pub mod keys;
pub mod name;
pub mod short_address;
pub mod signed;
mod text_form;
