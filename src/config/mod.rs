//! Configuration, one file per section. Unknown keys are refused by name, with the nearest known one.

pub mod keys;
pub mod relay;
