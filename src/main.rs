//! The program `bunqueue-mcp`: hands the arguments on and leaves.

use std::process::ExitCode;

/// Jobs are allocated on one thread and freed on another, which this allocator is made for.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    bunqueue_mcp::cli::main(std::env::args_os())
}
