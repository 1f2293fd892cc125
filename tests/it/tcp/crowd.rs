//! Many connections at once, over the worker door.
