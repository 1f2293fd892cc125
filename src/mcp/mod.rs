//! The agent door: an MCP server on stdio and on Streamable HTTP.
//!
//! The transports stand in front of rmcp and are generic over its handler type; they know nothing of tools.

pub mod http;
pub mod stdio;

mod envelope;

#[cfg(test)]
mod echo_server;
