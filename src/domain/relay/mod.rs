//! The rules of a REDSYN relay that need neither a store nor HTTP: plans, links, and why something is refused.
//! The store asks them inside its transactions, so that a decision and its effect cannot come apart.

pub mod link;
pub mod plan;
pub mod refusal;
pub mod target;
