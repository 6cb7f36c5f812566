//! The rules both protocols share, as plain types and functions: time, randomness, leases, back-off.
//! Nothing here may know HTTP, SQL or files; the one exception is `clock`, which reads the system clock.

pub mod acl;
pub mod backoff;
pub mod clock;
pub mod crossing;
pub mod current;
pub mod delivery;
pub mod lockout;
pub mod metrics;
pub mod nearby;
pub mod random;
pub mod rate;
pub mod relay;
pub mod v2;
pub mod wakeups;
