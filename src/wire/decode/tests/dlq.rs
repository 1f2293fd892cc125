//! Dead letters, reruns and policies per queue: what is read and what is refused.
