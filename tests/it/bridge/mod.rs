//! The bridge from outside: real processes, real HTTP, real crashes; and against a scripted relay, over a real file,
//! with a clock that only the test moves.

mod crash;
mod decisions;
mod demo;
mod endings;
mod fake_relay;
mod faults;
mod files;
mod inbound;
mod link;
mod outbound;
mod presence;
mod relay;
mod reload;
mod round_trip;
mod sealing;
mod trust;
mod world;
