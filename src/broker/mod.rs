//! broker

pub mod carrier;
