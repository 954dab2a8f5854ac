#!/usr/bin/env bash
# Writes the golden bytes of the wire and the journal anew. Look at the difference before you commit it: a changed line is a
# changed protocol. Refuses while its VERSION is the one that the kept bytes have.
set -euo pipefail
cd "$(dirname "$0")/.."

SHOAL_BLESS=1 cargo test --quiet -p shoal-wire --test golden keep_their_bytes
git --no-pager diff --stat -- actors/wire/testdata
