//! The rules of the second generation: the life of a message, and who may send what to whom.

pub mod acl;
pub mod delivery;
