//! What a process takes of the processor. Read from `/proc`; other systems are not measured.

use std::time::Duration;

/// The processor time it has used since it started.
pub fn processor(pid: u32) -> Option<Duration> {
    /// What the kernel counts in; a constant of its interface on every common machine.
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may hold anything; behind it the fields are numbers.
    let mut fields = stat.rsplit(')').next()?.split_whitespace().skip(11);
    let (user, system): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(Duration::from_secs_f64((user + system) / TICKS_PER_SECOND))
}
