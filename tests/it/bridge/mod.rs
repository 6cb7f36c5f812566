//! The bridge from outside: real processes, real HTTP, real crashes.

mod crash;
mod demo;
mod fake_relay;
mod round_trip;
