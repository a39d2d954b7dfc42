#!/usr/bin/env bash
# Runs every test. Each test has its own time limit; none may be skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
export OMP_WAIT_POLICY=passive
ctest --test-dir "$1" --output-on-failure -j 2 --no-tests=error
