//! Encrypted connections, over the worker door.
