//! Dead letters, reruns and policies per queue: replies.
