//! The bridge from outside: real processes, real HTTP, real crashes; and against a scripted relay, over a real file,
//! with a clock that only the test moves.

mod crash;
mod decisions;
mod demo;
mod embedded;
mod endings;
mod fake_relay;
mod faults;
mod files;
mod held;
mod hostile;
mod inbound;
mod less;
mod link;
mod many;
mod mapping;
mod node;
mod outages;
mod outbound;
mod pair;
mod parcels;
mod parcels_process;
mod peers;
mod presence;
mod relay;
mod reload;
mod round_trip;
mod same_message;
mod same_outcome;
mod sealing;
mod stranded;
mod topics_process;
mod trust;
mod v2;
mod v2_process;
mod world;
