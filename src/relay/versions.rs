//! The API dates (spec, «Versiones»).

use crate::proto::redsyn::ids::VERSION;

/// The dates this relay speaks, oldest first.
pub const KNOWN: &[&str] = &[VERSION];

/// The date a new organisation is pinned to, and that of whoever belongs to none.
pub const NEWEST: &str = VERSION;

/// The date called `text`, if this relay knows it.
pub fn known(text: &str) -> Option<&'static str> {
    KNOWN.iter().copied().find(|date| *date == text)
}

/// The date an organisation is pinned to. One that is no longer spoken falls forward: refusing every call of that
/// organisation would help nobody.
pub fn pinned(text: Option<&str>) -> &'static str {
    text.and_then(known).unwrap_or(NEWEST)
}
