//! The bridge: gives each listed local agent a REDSYN address and carries messages both ways (design: mapping).
//! It sits between `broker` (whose [`crate::broker::carrier::Carrier`] it implements) and `redsyn_client`.

pub mod carrier;
pub mod decisions;
pub mod events;
pub mod inbound;
mod judge;
pub mod keys;
pub mod link;
pub mod mapping;
pub mod names;
pub mod outbound;
pub mod presence;
mod recipient;
pub mod release;
mod seal;
pub mod supervisor;
