#!/usr/bin/env bash
# kill -9 of any one worker, 20 times at random moments of 200-step jobs on 4 workers; every run must end with the
# undisturbed digest. Options are passed on, e.g. `scripts/kill-any.sh --seed 3 --kills 40`.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --locked --release --bin shoalctl
exec cargo run --locked --release --quiet -p shoal-tests --bin kill-any -- --exe "$PWD/target/release/shoalctl" "$@"
