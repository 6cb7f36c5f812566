//! The two protocols as types: what travels, and what it must look like. No HTTP, no store, no clock.

pub mod redsyn;
