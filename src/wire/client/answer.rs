//! Reads replies. What is missing or of another type is `None`, and the reply as a whole then unreadable, unless it can do
//! without.

use std::sync::Arc;

use crate::command::Reply;
use crate::command::payload::{Reader, Value};
use crate::engine::{JobId, Millis};
use crate::wire::fields::{Fields, List, text};

impl<'a> Fields<'a> {
    pub(super) fn f64(&self, name: &str) -> Option<f64> {
        self.value(name)?.as_f64()
    }

    /// A time or a span, without its fraction.
    pub(super) fn millis(&self, name: &str) -> Option<Millis> {
        self.f64(name).map(|number| number as Millis)
    }

    pub(super) fn size(&self, name: &str) -> Option<usize> {
        self.f64(name).map(|number| number as usize)
    }

    pub(super) fn u64(&self, name: &str) -> Option<u64> {
        self.f64(name).map(|number| number as u64)
    }

    pub(super) fn u32(&self, name: &str) -> Option<u32> {
        self.f64(name).map(|number| number as u32)
    }

    pub(super) fn str(&self, name: &str) -> Option<&'a str> {
        self.value(name)?.as_text()
    }

    pub(super) fn shared(&self, name: &str) -> Option<Arc<str>> {
        self.str(name).map(Arc::from)
    }

    pub(super) fn job_id(&self, name: &str) -> Option<JobId> {
        self.str(name).map(JobId::from_text)
    }

    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        match self.value(name)? {
            Value::Bool(flag) => Some(flag),
            _ => None,
        }
    }

    pub(super) fn inner(&self, name: &str) -> Option<Self> {
        Self::of(self.raw(name)?)
    }

    pub(super) fn each(&self, name: &'static str) -> Option<List<'a>> {
        self.list(name, usize::MAX).ok().flatten()
    }

    /// A list of texts; empty when there is none.
    pub(super) fn shared_list(&self, name: &'static str) -> Vec<Arc<str>> {
        let items = self.each(name).into_iter().flatten();
        items.filter_map(text).map(Arc::from).collect()
    }

    /// A list of ids; empty when there is none.
    pub(super) fn id_list(&self, name: &'static str) -> Vec<JobId> {
        let items = self.each(name).into_iter().flatten();
        items.filter_map(text).map(JobId::from_text).collect()
    }

    /// A list of maps, each read by `read`.
    pub(super) fn maps<T>(
        &self,
        name: &'static str,
        read: impl Fn(&Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        self.each(name)?
            .map(|item| read(&Self::of(item)?))
            .collect()
    }

    /// The entries of a map of any size under text keys, in order.
    pub(super) fn pairs(&self, name: &str) -> Option<Vec<(&'a str, &'a [u8])>> {
        let mut reader = Reader::new(self.raw(name)?);
        let Ok(Value::Map(entries)) = reader.read() else {
            return None;
        };
        (0..entries)
            .map(|_| Some((reader.read_text().ok()?, reader.skip().ok()?)))
            .collect()
    }
}

/// A number on its own.
pub(super) fn number(raw: &[u8]) -> Option<f64> {
    Reader::new(raw).read().ok()?.as_f64()
}

/// A reply that is one count.
pub(super) fn counted(fields: &Fields<'_>) -> Option<Reply> {
    fields.size("count").map(Reply::Counted)
}

/// One count under `data`.
pub(super) fn data_counted(fields: &Fields<'_>) -> Option<Reply> {
    counted(&fields.inner("data")?)
}

/// A success that is all there is to say.
pub(super) fn yes(_: &Fields<'_>) -> Option<Reply> {
    Some(Reply::Flag(true))
}

/// One flag under `data`.
pub(super) fn data_flag(name: &'static str) -> impl Fn(&Fields<'_>) -> Option<Reply> {
    move |fields| fields.inner("data")?.flag(name).map(Reply::Flag)
}
