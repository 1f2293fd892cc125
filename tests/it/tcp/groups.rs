//! Groups, over the worker door.
