//! The bridge: gives each listed local agent a REDSYN address and carries messages both ways.
//! It sits between `broker` (whose [`crate::broker::carrier::Carrier`] it implements) and `redsyn_client`.

mod acks;
mod archive;
pub mod bells;
pub mod carrier;
pub mod decisions;
mod directory;
pub mod events;
mod held;
pub mod inbound;
mod judge;
pub mod keys;
pub mod lacks;
pub mod link;
mod lookups;
pub mod mapping;
pub mod names;
pub mod options;
mod order;
pub mod outbound;
mod parcels;
pub mod presence;
mod recipient;
pub mod release;
mod seal;
pub mod spill;
pub mod supervisor;
