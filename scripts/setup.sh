#!/usr/bin/env bash
# Installs what a build needs and is not there yet: distribution packages, then LibTorch from the
# `torch` package without its GPU companions. Does nothing, quickly, where all of it is present.
set -euo pipefail
cd "$(dirname "$0")/.."

TORCH_VERSION=2.15.0
PACKAGES=(g++ cmake ninja-build ccache lld pkg-config git clang-format python3 python3-venv
  libcli11-dev libtomlplusplus-dev nlohmann-json3-dev libxxhash-dev libpcre2-dev libhwloc-dev
  prometheus-cpp-dev liburing-dev libgtest-dev libgmock-dev libbenchmark-dev strace iproute2)

missing=()
for package in "${PACKAGES[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "install ok installed" || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "setup: installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

if [ -n "${TORCH_ROOT:-}" ]; then
  [ -f "$TORCH_ROOT/lib/libtorch_cpu.so" ] || {
    echo "setup: TORCH_ROOT=$TORCH_ROOT has no lib/libtorch_cpu.so; name the folder that holds include/ and lib/" >&2
    exit 2
  }
  mkdir -p .deps && echo "$TORCH_ROOT" >.deps/torch_root
  exit 0
fi

stamp=.deps/torch-$TORCH_VERSION
if [ ! -f "$stamp" ]; then
  echo "setup: installing LibTorch $TORCH_VERSION into .deps (0.6 GB to download, 1.3 GB on disk)"
  python3 -m venv .deps/venv
  # libtorch_cpu links the CUDA run time and its profiling interface even where there is no GPU.
  .deps/venv/bin/pip install -q --no-deps "torch==$TORCH_VERSION" \
    'nvidia-cuda-runtime>=13,<14' 'nvidia-cuda-cupti>=13,<14'
  touch "$stamp"
fi
.deps/venv/bin/python - >.deps/torch_root.new <<'PY'
import importlib.util
print(importlib.util.find_spec("torch").submodule_search_locations[0])
PY
# The old file stays where nothing changed, so that nothing is configured again.
if cmp -s .deps/torch_root.new .deps/torch_root; then rm .deps/torch_root.new; else mv .deps/torch_root.new .deps/torch_root; fi
