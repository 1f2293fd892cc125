//! The agent door from outside: plain JSON-RPC over stdio and Streamable HTTP, with clients of our own.

mod arguments;
mod cancel;
mod cases;
mod confirm;
mod description;
pub mod http;
mod lifecycle;
mod over_http;
mod results;
pub mod stdio;
