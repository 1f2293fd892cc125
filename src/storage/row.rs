//! Values of the engine as values of columns, and back.

use std::sync::Arc;

use rusqlite::Row;
use rusqlite::types::{ToSqlOutput, ValueRef};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::StoreError;
use crate::engine::{JobId, JobRecord, KeyRecord, Payload, State, StoredId};

/// Bytes of data above which it stands in a table of its own.
pub(super) const DATA_INLINE_MAX: usize = 1_024;

/// Facts of a job that are true or false, as bits above the state in which it was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flags(pub(super) i64);

impl Flags {
    pub(super) const CUSTOM_ID: i64 = 1 << 3;
    pub(super) const LIFO: i64 = 1 << 4;
    pub(super) const REMOVE_ON_COMPLETE: i64 = 1 << 5;
    pub(super) const REMOVE_ON_FAIL: i64 = 1 << 6;
    pub(super) const DURABLE: i64 = 1 << 7;
    pub(super) const GONE_IF_LOST: i64 = 1 << 8;
    pub(super) const PARKED: i64 = 1 << 9;
    pub(super) const UNWRITTEN: i64 = 1 << 10;
    pub(super) const OWNS_KEY: i64 = 1 << 11;
    /// Its data stands in `job_data`.
    pub(super) const DATA_APART: i64 = 1 << 12;
    const STATE: i64 = 0b111;

    pub(super) fn of(record: &JobRecord) -> Self {
        let bits = [
            (record.has_custom_id, Self::CUSTOM_ID),
            (record.lifo, Self::LIFO),
            (record.remove_on_complete, Self::REMOVE_ON_COMPLETE),
            (record.remove_on_fail, Self::REMOVE_ON_FAIL),
            (record.durable, Self::DURABLE),
            (record.gone_if_lost, Self::GONE_IF_LOST),
            (record.parked, Self::PARKED),
            (record.unwritten, Self::UNWRITTEN),
            (record.key != KeyRecord::NotOwned, Self::OWNS_KEY),
            (is_apart(record.data.as_ref()), Self::DATA_APART),
        ];
        let set = bits.iter().filter(|(set, _)| *set);
        let set = set.fold(0, |flags, (_, bit)| flags | bit);
        Self(set | state_number(record.admitted_as))
    }

    pub(super) const fn has(self, bit: i64) -> bool {
        self.0 & bit != 0
    }

    pub(super) fn admitted_as(self) -> Result<State, StoreError> {
        state_of(self.0 & Self::STATE)
    }
}

/// Whether data stands in a table of its own.
pub(super) fn is_apart(data: Option<&Payload>) -> bool {
    data.is_some_and(|data| data.bytes().len() > DATA_INLINE_MAX)
}

/// The number that stands for a state in a file; it never changes.
pub(super) const fn state_number(state: State) -> i64 {
    match state {
        State::Waiting => 0,
        State::Prioritized => 1,
        State::Delayed => 2,
        State::Active => 3,
        State::Completed => 4,
        State::Failed => 5,
        State::WaitingChildren => 6,
    }
}

/// The state of that number.
pub(super) fn state_of(number: i64) -> Result<State, StoreError> {
    let is = |state: &State| state_number(*state) == number;
    let what = "the state of a job";
    State::ALL
        .into_iter()
        .find(is)
        .ok_or(StoreError::Value { what })
}

/// An id as a column takes it.
pub(super) fn id_value(id: &JobId) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(match id.stored() {
        StoredId::Bytes(bytes) => ValueRef::Blob(bytes),
        StoredId::Text(text) => ValueRef::Text(text.as_bytes()),
    })
}

/// The id in a column.
pub(super) fn id_in(row: &Row<'_>, column: usize) -> Result<JobId, StoreError> {
    let id = match row.get_ref(column)? {
        ValueRef::Blob(bytes) => JobId::from_bytes(bytes),
        ValueRef::Text(text) => std::str::from_utf8(text).ok().map(JobId::from_text),
        _ => None,
    };
    let what = "the id of a job";
    id.ok_or(StoreError::Value { what })
}

/// A value that only the engine reads.
pub(super) fn packed<T: Serialize>(value: &T, what: &'static str) -> Result<Vec<u8>, StoreError> {
    rmp_serde::to_vec_named(value).map_err(|_| StoreError::Value { what })
}

/// The value in a column, if there is one.
pub(super) fn unpacked<T: DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
    what: &'static str,
) -> Result<Option<T>, StoreError> {
    let bytes = row.get_ref(column)?.as_blob_or_null();
    let bytes = bytes.map_err(|_| StoreError::Value { what })?;
    let read = |bytes| rmp_serde::from_slice(bytes).map_err(|_| StoreError::Value { what });
    bytes.map(read).transpose()
}

/// The value in a column that has one.
pub(super) fn unpacked_some<T: DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
    what: &'static str,
) -> Result<T, StoreError> {
    unpacked(row, column, what)?.ok_or(StoreError::Value { what })
}

/// The bytes of a user value in a column, if there is one.
pub(super) fn payload_in(row: &Row<'_>, column: usize) -> Result<Option<Payload>, StoreError> {
    let bytes = row.get_ref(column)?.as_blob_or_null();
    let what = "the data of a job";
    Ok(bytes
        .map_err(|_| StoreError::Value { what })?
        .map(Payload::new))
}

/// The text in a column, if there is one.
pub(super) fn text_in(row: &Row<'_>, column: usize) -> Result<Option<Arc<str>>, StoreError> {
    let text = row.get_ref(column)?.as_str_or_null();
    let what = "a text";
    Ok(text.map_err(|_| StoreError::Value { what })?.map(Arc::from))
}

/// A number that is never negative.
pub(super) fn unsigned(row: &Row<'_>, column: usize) -> Result<u64, StoreError> {
    let number: i64 = row.get(column)?;
    let what = "a number";
    u64::try_from(number).map_err(|_| StoreError::Value { what })
}

/// The same within 32 bits.
pub(super) fn small(row: &Row<'_>, column: usize) -> Result<u32, StoreError> {
    let what = "a number";
    u32::try_from(unsigned(row, column)?).map_err(|_| StoreError::Value { what })
}

/// The same, where there may be none.
pub(super) fn unsigned_if_any(row: &Row<'_>, column: usize) -> Result<Option<u64>, StoreError> {
    if row.get_ref(column)? == ValueRef::Null {
        return Ok(None);
    }
    unsigned(row, column).map(Some)
}

/// A number of the engine as a column takes it. They are counts that start at 0: none comes near the end.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
