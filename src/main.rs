//! The program `bunqueue-mcp`.

fn main() {}
