//! Webhooks, over the worker door.
