#!/usr/bin/env bash
# Runs every test. Each test has its own time limit; none may be skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
export OMP_WAIT_POLICY=passive
ctest --test-dir "$build" --output-on-failure -j 2 --no-tests=error

# The same ids as the `tokenizers` package, on texts of every script drawn anew each time.
peer=.deps/tokenizers-0.23.3
[ -d "$peer" ] || {
  python3 -m venv "$peer.new"
  "$peer.new/bin/pip" install -q tokenizers==0.23.3
  mv "$peer.new" "$peer"
}
"$peer/bin/python" tests/golden/tokenizer/generate.py check "$build/muster"
