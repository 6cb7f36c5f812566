//! What is kept: through kills, on a full disk, from a Node broker's files and back into them.

pub mod damaged;
mod durable;
mod export;
mod full_disk;
mod interrupted;
mod takeover;
