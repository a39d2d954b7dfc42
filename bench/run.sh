#!/usr/bin/env bash
# Runs a job of this folder with muster and with PyTorch, by turns; fails where muster misses a target.
# usage: bench/run.sh BUILD [--suite data|tensor|tiny|shard|context] [--rounds N] [--steps N]
#        bench/run.sh BUILD --suite checkpoints [--rounds N] [--without-share]
# BENCH_PYTHON=/path/to/python uses a Python that has torch already.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -n "${BENCH_PYTHON:-}" ] || BENCH_PYTHON=$(bench/setup.sh)
if [ "${2:-} ${3:-}" = "--suite checkpoints" ]; then
  exec "$BENCH_PYTHON" bench/checkpoints.py "$1" "${@:4}"
fi
exec "$BENCH_PYTHON" bench/side_by_side.py "$@"
