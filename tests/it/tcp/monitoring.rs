//! Figures and the dashboard, over the worker door.
