//! How the small types of the engine are written and read by whatever form a store uses (serde): ids and user values are
//! bytes, a schedule is its two texts.

use std::fmt;
use std::sync::Arc;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::id::{JobId, LockToken, StoredId};
use super::job::Payload;
use super::schedule::Schedule;

/// Whether a value is left out, because reading supplies it.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Takes bytes, however they are offered.
struct Bytes;

impl<'de> Visitor<'de> for Bytes {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        Ok(bytes.to_vec())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<u8>, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = list.next_element()? {
            bytes.push(byte);
        }
        Ok(bytes)
    }
}

/// Takes a job id: the bytes of a UUID, or a text.
struct Id;

impl Visitor<'_> for Id {
    type Value = JobId;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the 16 bytes or the text of a job id")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<JobId, E> {
        JobId::from_bytes(bytes).ok_or_else(|| E::invalid_length(bytes.len(), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<JobId, E> {
        Ok(JobId::from_text(text))
    }
}

impl Serialize for JobId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.stored() {
            StoredId::Bytes(bytes) => serializer.serialize_bytes(bytes),
            StoredId::Text(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for JobId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Id)
    }
}

impl Serialize for LockToken {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.bytes())
    }
}

impl<'de> Deserialize<'de> for LockToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = deserializer.deserialize_bytes(Bytes)?;
        Self::from_bytes(&bytes)
            .ok_or_else(|| D::Error::invalid_length(bytes.len(), &"the 16 bytes of a token"))
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.bytes())
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = deserializer.deserialize_bytes(Bytes)?;
        Ok(Self::new(&bytes))
    }
}

/// The texts of a schedule.
#[derive(Serialize, Deserialize)]
struct ScheduleTexts {
    pattern: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    zone: Option<Arc<str>>,
}

impl Serialize for Schedule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let texts = ScheduleTexts {
            pattern: Arc::clone(self.text()),
            zone: self.zone().cloned(),
        };
        texts.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Schedule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let texts = ScheduleTexts::deserialize(deserializer)?;
        Self::read(&texts.pattern, texts.zone.as_deref()).map_err(D::Error::custom)
    }
}
