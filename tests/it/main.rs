//! Tests from outside: the library through its public face, and the real binary. One binary for all of them, as
//! each links everything.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed; clippy sees only the test functions as tests"
)]

mod vectors;
