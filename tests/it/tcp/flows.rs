//! Flows and ties between jobs, over the worker door.
