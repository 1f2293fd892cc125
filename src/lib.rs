//! A job queue that AI agents drive, and ordinary workers with them.
//!
//! Two doors lead to one engine: agents speak MCP, workers speak framed MessagePack over TCP. Both are thin
//! translators into the typed commands of [`command`]; a [`broker`] applies them to the pure state machine in
//! [`engine`]. ARCHITECTURE.md tells the rest.

pub mod broker;
pub mod cli;
pub mod command;
pub mod config;
pub mod docgen;
pub mod engine;
pub mod handlers;
pub mod http;
pub mod mcp;
pub mod metrics;
pub mod net;
pub mod server;
pub mod storage;
pub mod webhooks;
pub mod wire;
