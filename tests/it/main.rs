//! Tests against the real binary.

// Clippy takes only what is marked so for a test, and lets it unwrap.
#[cfg(test)]
mod golden;
