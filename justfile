# Each recipe is one plain command, so nobody needs `just`.

# What the compiler, the formatter and the linter say.
check:
    cargo fmt --all --check && cargo clippy --locked --all-targets -- -D warnings

# All tests that need nothing but this repository.
test:
    cargo test

# Rewrites generated files: docs/tools, parts of docs/reference, llms, snapshots.
update:
    UPDATE=1 cargo test

# The published clients and MCP SDKs against a fresh build.
interop:
    tests/interop/run

# Everything that must hold before a change lands.
gate:
    .ci/run

# Hostile bytes for the worker door, by one of the targets of tests/fuzz; needs cargo-fuzz, nightly Rust and a C++ compiler.
fuzz target='broker' seconds='600':
    cargo run --manifest-path tests/fuzz/Cargo.toml --no-default-features --example seeds
    cargo +nightly fuzz run --fuzz-dir tests/fuzz {{target}} -- -dict=tests/fuzz/corpus/words.dict -max_len=131072 -timeout=10 -rss_limit_mb=2048 -report_slow_units=1 -max_total_time={{seconds}}

# The broker in memory, with both doors open on loopback.
run:
    cargo run --release -- serve

bench:
    cargo bench

# Licences, advisories and sources of the dependencies; needs cargo-deny.
deny:
    cargo deny check
