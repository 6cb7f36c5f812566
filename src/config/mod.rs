//! config

pub mod fields;
pub mod redsyn;
