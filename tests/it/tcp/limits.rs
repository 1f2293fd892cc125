//! Limits of queues, over the worker door.
