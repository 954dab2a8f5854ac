#!/usr/bin/env bash
# The one gate. Every step must pass; `.ci/run` calls it.
#
#   scripts/check.sh            everything
#   scripts/check.sh quick      without the tests
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s\n' "$*"; }

step "format"
cargo fmt --all --check

step "clippy, warnings denied"
cargo clippy --locked --workspace --all-targets -- -D warnings

step "rustdoc, warnings denied"
RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --quiet

step "licences, sources, bans"
if cargo deny --version >/dev/null 2>&1; then
    cargo deny --all-features check --hide-inclusion-graph licenses bans sources
else
    echo "cargo-deny is not installed: \`cargo install cargo-deny --locked\`, or set SHOAL_SKIP_DENY=1 to go without"
    [ "${SHOAL_SKIP_DENY:-}" = 1 ]
fi

step "the house: arrows between crates, purity of plan, length of files"
cargo test --locked --quiet -p shoal-tests --test house

other=aarch64-unknown-linux-gnu
if [ -d "$(rustc --print target-libdir --target "$other")" ]; then
    step "another architecture compiles: $other"
    CARGO_TARGET_DIR=target/other cargo check --locked --quiet -p shoal-kernels -p shoal-model --all-targets --target "$other"
else
    printf '\n-- %s is not looked at: no standard library for it here (rustup target add %s)\n' "$other" "$other"
fi

[ "${1:-}" = quick ] && exit 0

step "tests"
cargo test --locked --workspace
