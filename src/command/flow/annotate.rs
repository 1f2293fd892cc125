//! The ties of a job inside its data: workers read `__parentId`, `__parentQueue` and `__childrenIds` there.

use super::FlowFault;
use crate::command::bounds::cut_copy_to;
use crate::command::payload::{self, Writer};
use crate::engine::{JobId, JobLinks, Payload};

/// Id of the parent.
pub(super) const PARENT_ID: &str = "__parentId";
/// Queue of the parent.
pub(super) const PARENT_QUEUE: &str = "__parentQueue";
/// Ids of the children.
pub(super) const CHILDREN_IDS: &str = "__childrenIds";

/// Bytes of a caller's key that an error repeats: a key may be as long as the data.
const KEY_SHOWN: usize = 256;

/// The data with exactly the ties of the job in it; `None` for data that is no map, which stays as it is.
pub fn annotate(links: &JobLinks, data: Option<&Payload>) -> Option<Payload> {
    let mut parent = None;
    if let Some(link) = &links.parent {
        let (mut id, mut queue) = (Vec::new(), Vec::new());
        link.id.with_text(|text| Writer::new(&mut id).text(text));
        Writer::new(&mut queue).text(&link.queue);
        parent = Some((id, queue));
    }
    let (id, queue) = parent.unzip();
    let children = (!links.children.is_empty()).then(|| list(&links.children));
    let entries = [
        (PARENT_ID, id.as_deref()),
        (PARENT_QUEUE, queue.as_deref()),
        (CHILDREN_IDS, children.as_deref()),
    ];
    let data = data.map_or(&[0x80][..], Payload::bytes);
    payload::with_entries(data, &entries).map(|bytes| Payload::new(&bytes))
}

/// A list of ids as MessagePack.
fn list(ids: &[JobId]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    writer.array(ids.len());
    for id in ids {
        id.with_text(|text| writer.text(text));
    }
    bytes
}

/// New data for a job that belongs to a flow: what its user sends, with the ties it has.
///
/// # Errors
/// [`FlowFault::DataNotObject`], [`FlowFault::ReservedKey`].
pub fn update(links: &JobLinks, data: Option<&Payload>) -> Result<Payload, FlowFault> {
    check_user_data(data.map_or(&[], Payload::bytes))?;
    annotate(links, data).ok_or(FlowFault::DataNotObject)
}

/// Whether a caller's data may become that of a job in a flow.
pub(super) fn check_user_data(data: &[u8]) -> Result<(), FlowFault> {
    match payload::key_with_prefix(data, "__") {
        Err(_) => Err(FlowFault::DataNotObject),
        Ok(Some(key)) => Err(FlowFault::ReservedKey(
            cut_copy_to(KEY_SHOWN, key).to_string(),
        )),
        Ok(None) => Ok(()),
    }
}
