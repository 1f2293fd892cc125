//! A job queue that AI agents drive.
