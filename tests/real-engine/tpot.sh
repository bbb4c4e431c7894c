#!/usr/bin/env bash
# Is our TPOT right? Beside llama.cpp's own timings, and beside `vllm bench serve` where VLLM names it: the same requests,
# one at a time, blocks of both clients in turns. See README.md beside this file.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
server=${LLAMA_SERVER:?a command that starts llama-server on the port given as its first argument}
port=${SERVEGATE_REAL_PORT:-18091}
rounds=${ROUNDS:-5} requests=${REQUESTS:-12} tokens=128 prompt=128
gate=${SERVEGATE:-$root/target/release/servegate}
if [[ -z ${SERVEGATE:-} ]]; then cargo build --release --locked --manifest-path "$root/Cargo.toml"; fi
state=$(mktemp -d)

"$server" "$port" -t 1 -np 1 -c 2048 --log-file "$state/server.log" >"$state/server.out" 2>&1 &
engine=$!
trap 'kill "$engine"; wait "$engine" || true; rm -rf "$state"' EXIT
until curl -sf "http://127.0.0.1:$port/health" >/dev/null; do
  kill -0 "$engine" || { tail -20 "$state/server.out" >&2; exit 1; }
  sleep 0.5
done

cat >"$state/w.yaml" <<YAML
servegate: 1
kind: workload
name: tpot
cells:
  - {name: c1, concurrency: 1, requests: $requests, warmup: 1, prompt_tokens: $prompt, output_tokens: $tokens}
YAML

# Both clients ask for the likeliest token each time: what drawing one costs the server is not in question.
cat >"$state/servegate.yaml" <<YAML
servegate: 1
kind: config
targets:
  llama:
    url: http://127.0.0.1:$port
    api: chat
    model: smollm2-135m
    extra_body: {ignore_eos: true, temperature: 0}
YAML

"$gate" workload show "$state/w.yaml" --measured >"$state/prompts.jsonl"

for round in $(seq "$rounds"); do
  "$gate" measure --quiet --workload "$state/w.yaml" --config "$state/servegate.yaml" --target llama --runs 1 --session "s$round" --out "$state/runs-$round" >/dev/null
  cat "$state/server.out" "$state/server.log" 2>/dev/null >"$state/log-ours-$round"
  zstd -dcq "$state/runs-$round"/*/records.jsonl.zst >"$state/ours-$round"
  if [[ -n ${VLLM:-} ]]; then
    "$VLLM" bench serve --backend openai-chat --base-url "http://127.0.0.1:$port" --endpoint /v1/chat/completions \
      --model smollm2-135m --tokenizer "${TOKENIZER:?a folder with a tokenizer, for vllm bench serve}" --dataset-name custom \
      --dataset-path "$state/prompts.jsonl" --custom-output-len "$tokens" --skip-chat-template --disable-shuffle --ignore-eos --temperature 0 --num-prompts "$requests" --max-concurrency 1 --seed "$round" \
      --disable-tqdm --save-result --save-detailed --result-dir "$state" --result-filename "theirs-$round" >"$state/vllm.out" 2>&1 ||
      { tail -20 "$state/vllm.out" >&2; exit 1; }
    cat "$state/server.out" "$state/server.log" 2>/dev/null >"$state/log-theirs-$round"
  fi
done
python3 "$here/tpot.py" "$state" "$rounds" "$requests"
