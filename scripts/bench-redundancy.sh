#!/usr/bin/env bash
# What shadows and commit cost when nothing fails: `bench-s` at 16,384 tokens a step on two workers of one thread, 20 interleaved pairs
# of runs with redundancy 1 and 0. Prints one JSON document; about 15 minutes on two quiet cores.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --locked --release --bin shoalctl
exec cargo run --locked --release --quiet -p shoal-tests --bin bench-redundancy -- --exe "$PWD/target/release/shoalctl" "$@"
