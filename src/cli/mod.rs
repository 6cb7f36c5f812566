//! The commands, one file each: arguments to library calls, results to the terminal.

pub mod relay;
