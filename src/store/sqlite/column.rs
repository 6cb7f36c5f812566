//! Columns as types of ours. A row that cannot be read means a damaged database.

use rusqlite::types::{FromSql, FromSqlError};
use rusqlite::{Result, Row};

use crate::domain::clock::Timestamp;
use crate::domain::delivery::LeaseId;
use crate::proto::dsh::json::JsonText;
use crate::proto::dsh::names::{AgentName, DshId, Party};
use crate::proto::dsh::v2::name::Name;

/// A column read as a type of ours.
pub(crate) struct Column<T>(pub(crate) T);

macro_rules! column {
    ($type:ty, $value:ident => $read:expr) => {
        impl rusqlite::types::FromSql for $crate::store::sqlite::column::Column<$type> {
            fn column_result($value: rusqlite::types::ValueRef<'_>) -> rusqlite::types::FromSqlResult<Self> {
                Ok(Self($read))
            }
        }
    };
}

pub(crate) use column;

column!(Timestamp, value => Timestamp::from_millis(value.as_i64()?));
column!(DshId, value => DshId::new(value.as_str()?));
column!(Party, value => Party::new(value.as_str()?));
column!(AgentName, value => AgentName::parse(value.as_str()?).ok_or(FromSqlError::InvalidType)?);
column!(LeaseId, value => LeaseId::new(value.as_str()?));
column!(JsonText, value => JsonText::parse(value.as_str()?).map_err(FromSqlError::other)?);
column!(Name, value => Name::of(value.as_str()?));

pub(crate) fn get<T>(row: &Row<'_>, at: usize) -> Result<T>
where
    Column<T>: FromSql,
{
    row.get::<_, Column<T>>(at).map(|column| column.0)
}

pub(crate) fn get_option<T>(row: &Row<'_>, at: usize) -> Result<Option<T>>
where
    Column<T>: FromSql,
{
    row.get::<_, Option<Column<T>>>(at).map(|column| column.map(|column| column.0))
}
