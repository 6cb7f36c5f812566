//! The memory of a process. Read from `/proc`; other systems are not measured.

/// What is resident now.
pub const NOW: &str = "VmRSS:";

/// In MiB.
pub fn resident(process: u32, what: &str) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(what))?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib / 1024.0)
}

pub fn told(value: Option<f64>, unit: &str) -> String {
    value.map_or_else(|| "not measured on this system".to_owned(), |value| format!("{value:.1} {unit}"))
}
