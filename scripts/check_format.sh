#!/usr/bin/env bash
# Fails where a C++ source is not in the house style; `make format` mends it.
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files --cached --others --exclude-standard 'src/*.cpp' 'src/*.h' 'tests/*.cpp' 'tests/*.h' 'bench/*.cpp' |
  xargs -r clang-format --dry-run --Werror
echo "format: ok"
