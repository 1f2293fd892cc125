//! Schedules, over the worker door.
