//! The end of the process, over the worker door.
