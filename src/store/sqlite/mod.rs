//! SQLite: the only place that names rusqlite. One thread owns each database file ([`db::Db`]).

pub mod bridge;
mod cells;
pub(crate) mod column;
pub mod db;
pub(crate) mod ended;
mod journal;
#[cfg(test)]
mod kept;
mod leases;
mod load;
pub mod local;
pub mod local_schema;
pub mod node_files;
mod pages;
#[cfg(test)]
mod plans;
pub mod relay;
pub mod schema;
pub mod v2;

use crate::store::StoreError;

/// Whether what a row holds is not what was written there. The text names the column and never what is in it.
fn is_unreadable(error: &rusqlite::Error) -> bool {
    use rusqlite::Error as E;
    matches!(
        error,
        E::FromSqlConversionFailure(..)
            | E::InvalidColumnType(..)
            | E::IntegralValueOutOfRange(..)
            | E::Utf8Error(..)
    )
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode as Code;
        if is_unreadable(&error) {
            return Self::Damaged(error.to_string());
        }
        match error.sqlite_error_code() {
            Some(Code::DiskFull) => Self::Full,
            Some(Code::DatabaseBusy | Code::DatabaseLocked) => Self::Locked,
            Some(Code::ReadOnly | Code::CannotOpen | Code::PermissionDenied) => {
                Self::ReadOnly(error.to_string())
            }
            Some(Code::DatabaseCorrupt | Code::NotADatabase) => Self::Damaged(error.to_string()),
            // The rest of the text would be the statement, which says nothing to a person.
            _ => Self::Other(error.to_string().lines().next().unwrap_or_default().to_owned()),
        }
    }
}
