#!/usr/bin/env bash
# Trains configs/jobs/demo.toml on a book in two processes, lets the model write, and leaves a report.
# usage: scripts/demo.sh BUILD     CORPUS=/path/to/text.txt trains on your text instead
set -euo pipefail
corpus=${CORPUS:+$(realpath "$CORPUS")}
cd "$(dirname "$0")/.."
build=$1

print_book() {
  command -v bible >/dev/null || {
    echo "demo: installing bible-kjv" >&2
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends bible-kjv >/dev/null
  }
  bible -f gen1:1-rev22:21 # one verse a line; -f turns the wrapping off
}

if [ -z "$corpus" ]; then
  corpus=$PWD/.cache/corpus/bible.txt
  [ -f "$corpus" ] || {
    mkdir -p "$(dirname "$corpus")"
    print_book >"$corpus.partial"
    mv "$corpus.partial" "$corpus"
  }
fi

run=runs/demo-$(date +%Y%m%d-%H%M%S)
"$build/muster" train configs/jobs/demo.toml --procs 2 --run "$run" --set "data.path=$corpus"
echo
"$build/muster" sample "$run" --prompt "And the LORD said" --tokens 400 --temperature 0.7
echo
echo "demo: open $run/report.html"
