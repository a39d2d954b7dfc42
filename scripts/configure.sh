#!/usr/bin/env bash
# Configures the build tree once; afterwards CMake looks after itself.
set -euo pipefail
cd "$(dirname "$0")/.."
want="$(cat .deps/torch_root) gpu=${GPU:-0}"
if [ ! -f "$BUILD/build.ninja" ] || [ "$(cat "$BUILD/.configured" 2>/dev/null)" != "$want" ]; then
  cmake -S . -B "$BUILD" -G Ninja -DCMAKE_BUILD_TYPE=Release -DMUSTER_GPU="${GPU:-0}" \
    -DTORCHWHEEL_ROOT="$(cat .deps/torch_root)"
  echo "$want" >"$BUILD/.configured"
fi
