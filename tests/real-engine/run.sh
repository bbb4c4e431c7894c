#!/usr/bin/env bash
# Records a baseline of a real llama.cpp server and judges changes against it; see README.md beside this file.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
export LLAMA_SERVER=${LLAMA_SERVER:?a command that starts llama-server on the port given as its first argument}
export SERVEGATE_REAL_PORT=${SERVEGATE_REAL_PORT:-18090}
export SERVEGATE_REAL_STATE=$root/target/real-engine
what=${1:-all}
state=$SERVEGATE_REAL_STATE
mkdir -p "$state"
trap '"$here/restart.sh" stop' EXIT

gate=${SERVEGATE:-$root/target/release/servegate}
if [[ -z ${SERVEGATE:-} ]]; then cargo build --release --locked --manifest-path "$root/Cargo.toml"; fi

flags() { printf '%s\n' "${@:2}" >"$state/$1.flags"; }

# servegate.yaml of one experiment: $1 declared KV type, $2 declared threads, $3 output file
config() {
  cat >"$3" <<YAML
servegate: 1
kind: config
targets:
  llama:
    url: http://127.0.0.1:$SERVEGATE_REAL_PORT
    api: chat
    model: smollm2-135m
    restart:
      command: ["$here/restart.sh"]
      timeout: 60s
    ready: {path: /health, timeout: 120s}
    extra_body: {ignore_eos: true, cache_prompt: false}
    conditions: {engine: llama.cpp, kv_cache_dtype: "$1", threads: "$2"}
YAML
}

# Records a baseline of two sessions with two runs each: $1 release, $2 config, $3 store
baseline() {
  rm -rf "$3"
  local mode=(--initial)
  for session in 1 2; do
    rm -rf "$state/runs-$1-$session"
    "$gate" measure --config "$2" --target llama --workload "$here/policies/workloads/small.yaml" \
      --release "$1" --side baseline --runs 2 --session "s$session" --out "$state/runs-$1-$session"
    "$gate" baseline refresh --store "$3" --release "$1" --approved-by "real-engine script" "${mode[@]}" --runs "$state/runs-$1-$session"
    mode=(--add-session --policy "$here/policies/kv.yaml")
  done
}

# Judges: $1 name, $2 config, $3 store; says the exit code instead of ending the script
judge() {
  local code=0
  "$gate" run --config "$2" --target llama --policy "$here/policies/kv.yaml" --store "$3" \
    --release "candidate-$1" --out "$state/out-$1" || code=$?
  echo "== $1: exit code $code, reports in target/real-engine/out-$1"
}

if [[ $what == aa || $what == q8 || $what == all ]]; then
  flags baseline -t 1 -np 2 -c 2048 -fa on
  config f16 1 "$state/f16.yaml"
  if [[ ! -d $state/store-f16/small ]]; then baseline f16 "$state/f16.yaml" "$state/store-f16"; fi
fi
if [[ $what == aa || $what == all ]]; then
  flags candidate -t 1 -np 2 -c 2048 -fa on
  judge aa "$state/f16.yaml" "$state/store-f16"
fi
if [[ $what == q8 || $what == all ]]; then
  flags candidate -t 1 -np 2 -c 2048 -fa on --cache-type-k q8_0 --cache-type-v q8_0
  config q8_0 1 "$state/q8.yaml"
  judge q8 "$state/q8.yaml" "$state/store-f16"
fi
if [[ $what == threads || $what == all ]]; then
  flags baseline -t 2 -np 2 -c 2048 -fa on
  config f16 2 "$state/t2.yaml"
  if [[ ! -d $state/store-t2/small ]]; then baseline t2 "$state/t2.yaml" "$state/store-t2"; fi
  flags candidate -t 1 -np 2 -c 2048 -fa on
  config f16 1 "$state/t1.yaml"
  judge threads "$state/t1.yaml" "$state/store-t2"
fi
