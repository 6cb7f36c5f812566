//! redsyn-bridge: a local broker for coding agents, a bridge to REDSYN, and a REDSYN relay.
//!
//! The map, left knows nothing of right (`tests/architecture.rs` enforces it):
//!
//! `crypto` → `proto` → `domain` → `config` → `store` → `admin`, `intake`, `broker`, `relay`, `redsyn_client`, `dsh_client` → `bridge` → `runtime` → `cli`
//!
//! `broker` and `relay` never meet. Only `*/http` names axum, only the clients name reqwest, only
//! `store/sqlite` names rusqlite, and only `domain/clock` and `runtime` read the system clock.
//!
//! Invariants: an answer that says "stored" is sent after the commit; secrets and message bodies are never
//! logged; every rule about time takes the one [`domain::clock::Clock`].

pub mod admin;
pub mod bridge;
pub mod broker;
pub mod cli;
pub mod config;
pub mod crypto;
pub mod domain;
pub mod dsh_client;
pub mod intake;
pub mod proto;
pub mod redsyn_client;
pub mod relay;
pub mod runtime;
pub mod store;
