#!/usr/bin/env bash
# Installs PyTorch as its users do, GPU companions included, for the comparison alone; prints its Python.
set -euo pipefail
cd "$(dirname "$0")/.."
TORCH_VERSION=$(sed -n 's/^TORCH_VERSION=//p' scripts/setup.sh)
venv=.deps/bench-venv
if [ ! -f "$venv/torch-$TORCH_VERSION" ]; then
  echo "bench: installing PyTorch $TORCH_VERSION into $venv (5.4 GB on disk)" >&2
  python3 -m venv --clear "$venv"
  "$venv/bin/pip" install -q "torch==$TORCH_VERSION" numpy >&2
  touch "$venv/torch-$TORCH_VERSION"
fi
echo "$venv/bin/python"
