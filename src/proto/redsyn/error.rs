//! The error answer of the REDSYN API: `{"error": "…", "status": N}`, with `quota` and `versions` where they apply.

use serde::{Deserialize, Serialize};

/// The JSON of an error answer (spec, «La API HTTP» and «Límites»).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    pub error: String,
    pub status: u16,
    /// A limit of the plan: retrying is useless until the plan or the day changes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quota: bool,
    /// The known API dates, in a 400 over `Redsyn-Version`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<Vec<String>>,
}

impl ErrorBody {
    pub fn new(status: u16, error: impl Into<String>) -> Self {
        Self { error: error.into(), status, quota: false, versions: None }
    }

    #[must_use]
    pub fn quota(mut self) -> Self {
        self.quota = true;
        self
    }
}
