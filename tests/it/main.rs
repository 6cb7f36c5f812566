//! Tests against the real binary.

mod golden;
