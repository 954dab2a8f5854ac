#!/usr/bin/env bash
# Writes the golden bytes of the wire and the journal anew. Look at the difference before you commit it: a changed line is a
# changed protocol, and needs a new VERSION once one has been released.
set -euo pipefail
cd "$(dirname "$0")/.."

SHOAL_BLESS=1 cargo test --quiet -p shoal-wire --test golden keep_their_bytes
git --no-pager diff --stat -- actors/wire/testdata
