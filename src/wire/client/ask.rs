//! Builds requests: maps with the entries that are set.

use super::{Exchange, Reading, Refused};
use crate::command::payload::Writer;
use crate::command::{GroupId, QueueName, Reply};
use crate::engine::{JobId, Millis, TokenGiven};
use crate::wire::fields::Fields;

/// A text that no token has, for one that had no form of a token either.
const NO_TOKEN: &str = "malformed";

/// A map under construction.
pub(super) struct Ask {
    name: &'static str,
    entries: usize,
    out: Vec<u8>,
}

/// A request for that command.
pub(super) fn ask(name: &'static str) -> Ask {
    Ask {
        name,
        entries: 0,
        out: Vec::new(),
    }
}

/// A map inside a request.
pub(super) fn map() -> Ask {
    ask("")
}

impl Ask {
    /// The request as it is, and how its success is read.
    pub(super) fn then(
        self,
        read: impl FnOnce(&Fields<'_>) -> Option<Reply> + Send + 'static,
    ) -> Exchange {
        let read: Reading = Box::new(read);
        Exchange {
            name: self.name,
            entries: self.entries,
            body: self.out,
            read,
            refused: Refused::Error,
        }
    }

    /// A request whose success says nothing.
    pub(super) fn done(self) -> Exchange {
        self.then(|_| Some(Reply::Done(())))
    }

    /// Where the value of a further entry goes.
    fn key(&mut self, key: &str) -> Writer<'_> {
        self.entries += 1;
        let mut writer = Writer::new(&mut self.out);
        writer.text(key);
        writer
    }

    fn maybe<T>(self, value: Option<T>, append: impl FnOnce(Self, T) -> Self) -> Self {
        match value {
            Some(value) => append(self, value),
            None => self,
        }
    }

    pub(super) fn nil(mut self, key: &str) -> Self {
        self.key(key).nil();
        self
    }

    pub(super) fn bool(mut self, key: &str, value: bool) -> Self {
        self.key(key).bool(value);
        self
    }

    /// The entry with the value true, if it is.
    pub(super) fn flag(self, key: &str, value: bool) -> Self {
        self.bool_if(key, value.then_some(true))
    }

    pub(super) fn bool_if(self, key: &str, value: Option<bool>) -> Self {
        self.maybe(value, |ask, value| ask.bool(key, value))
    }

    pub(super) fn text(mut self, key: &str, value: &str) -> Self {
        self.key(key).text(value);
        self
    }

    pub(super) fn text_if(self, key: &str, value: Option<&str>) -> Self {
        self.maybe(value, |ask, value| ask.text(key, value))
    }

    pub(super) fn number(mut self, key: &str, value: f64) -> Self {
        self.key(key).number(value);
        self
    }

    pub(super) fn number_if(self, key: &str, value: Option<f64>) -> Self {
        self.maybe(value, |ask, value| ask.number(key, value))
    }

    pub(super) fn time(mut self, key: &str, value: Millis) -> Self {
        self.key(key).integer(value);
        self
    }

    pub(super) fn time_if(self, key: &str, value: Option<Millis>) -> Self {
        self.maybe(value, |ask, value| ask.time(key, value))
    }

    pub(super) fn count(self, key: &str, value: usize) -> Self {
        self.time(key, Millis::try_from(value).unwrap_or(Millis::MAX))
    }

    pub(super) fn count_if(self, key: &str, value: Option<usize>) -> Self {
        self.maybe(value, |ask, value| ask.count(key, value))
    }

    /// A value that is MessagePack already.
    pub(super) fn raw(self, key: &str, value: Option<&[u8]>) -> Self {
        self.maybe(value, |mut ask, value| {
            ask.key(key).raw(value);
            ask
        })
    }

    pub(super) fn id(self, key: &str, id: &JobId) -> Self {
        id.with_text(|id| self.text(key, id))
    }

    pub(super) fn queue(self, queue: &QueueName) -> Self {
        self.text("queue", queue.as_str())
    }

    pub(super) fn group(self, queue: &QueueName, group: &GroupId) -> Self {
        self.queue(queue).text("groupId", group.as_str())
    }

    /// The proof of a delivery, if there is one.
    pub(super) fn token(self, token: TokenGiven) -> Self {
        match token {
            TokenGiven::None => self,
            token => with_token(token, |token| self.text("token", token)),
        }
    }

    pub(super) fn texts<T: AsRef<str>>(self, key: &str, values: &[T]) -> Self {
        self.list(key, values.iter(), |writer, value| {
            writer.text(value.as_ref());
        })
    }

    /// The list, unless it is empty.
    pub(super) fn texts_if<T: AsRef<str>>(self, key: &str, values: &[T]) -> Self {
        let values = Some(values).filter(|values| !values.is_empty());
        self.maybe(values, |ask, values| ask.texts(key, values))
    }

    pub(super) fn ids<'i>(self, key: &str, ids: impl ExactSizeIterator<Item = &'i JobId>) -> Self {
        self.list(key, ids, |writer, id| id.with_text(|id| writer.text(id)))
    }

    /// One proof per delivery; an empty text stands for none.
    pub(super) fn tokens(
        self,
        key: &str,
        tokens: impl ExactSizeIterator<Item = TokenGiven>,
    ) -> Self {
        self.list(key, tokens, |writer, token| {
            with_token(token, |token| writer.text(token));
        })
    }

    /// A list of numbers; nil stands for none.
    pub(super) fn numbers(
        self,
        key: &str,
        numbers: impl ExactSizeIterator<Item = Option<f64>>,
    ) -> Self {
        self.list(key, numbers, |writer, number| match number {
            Some(number) => writer.number(number),
            None => writer.nil(),
        })
    }

    /// A list of values that are MessagePack already.
    pub(super) fn raws<'v>(
        mut self,
        key: &str,
        values: impl ExactSizeIterator<Item = &'v [u8]>,
    ) -> Self {
        let mut writer = self.key(key);
        writer.array(values.len());
        values.for_each(|value| writer.raw(value));
        self
    }

    pub(super) fn map(mut self, key: &str, inner: &Self) -> Self {
        inner.write(&mut self.key(key));
        self
    }

    pub(super) fn map_if(self, key: &str, inner: Option<&Self>) -> Self {
        self.maybe(inner, |ask, inner| ask.map(key, inner))
    }

    pub(super) fn maps(self, key: &str, inner: &[Self]) -> Self {
        self.list(key, inner.iter(), |writer, map| map.write(writer))
    }

    fn list<T>(
        mut self,
        key: &str,
        items: impl ExactSizeIterator<Item = T>,
        write: impl Fn(&mut Writer<'_>, T),
    ) -> Self {
        let mut writer = self.key(key);
        writer.array(items.len());
        for item in items {
            write(&mut writer, item);
        }
        self
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.entries == 0
    }

    fn write(&self, writer: &mut Writer<'_>) {
        writer.map(self.entries);
        writer.raw(&self.out);
    }
}

fn with_token<R>(token: TokenGiven, use_text: impl FnOnce(&str) -> R) -> R {
    match token {
        TokenGiven::None => use_text(""),
        TokenGiven::Token(token) => token.with_text(use_text),
        TokenGiven::Malformed => use_text(NO_TOKEN),
    }
}
