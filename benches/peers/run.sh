#!/usr/bin/env bash
# Stream events per second of processor time: servegate beside the Python clients vllm bench serve, guidellm and aiperf,
# the same precise server, the same load. See README.md beside this file.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
streams=${STREAMS:-64} tokens=64 gap=${GAP:-20}
few=${FEW:-128} many=${MANY:-1280}
gate=${SERVEGATE:-$root/target/release/servegate}
state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
if [[ -z ${SERVEGATE:-} ]]; then cargo build --release --locked --manifest-path "$root/Cargo.toml"; fi

# Runs "$@" against a server of its own ($URL in the arguments becomes its address); prints the processor seconds.
cost() {
  rm -f "$state/in" "$state/out"
  mkfifo "$state/in"
  "$gate" selfcheck --serve "$gap" <"$state/in" >"$state/out" &
  local server=$! used
  exec 9>"$state/in"
  until [[ -s $state/out ]]; do sleep 0.05; done
  local url; url=http://$(head -1 "$state/out")
  local args=("${@//URL/$url}")
  TIMEFORMAT='%U %S'
  used=$( { time "${args[@]}" >"$state/log" 2>&1; } 2>&1 ) || { tail -20 "$state/log" >&2; used='nan nan'; }
  exec 9>&-
  wait "$server" || true
  rm -f "$state/in"
  awk '{print $1 + $2}' <<<"$used"
}

# Start-up is no load: the cost of $many requests less that of $few, for the events between them.
row() {
  local name=$1 less more
  shift
  less=$(cost "${@//REQUESTS/$few}")
  more=$(cost "${@//REQUESTS/$many}")
  awk -v name="$name" -v less="$less" -v more="$more" -v events="$(((many - few) * tokens))" \
    'BEGIN { printf "| %s | %.2f | %.2f | %.1f | %.0f |\n", name, less, more, (more - less) / events * 1e6, events / (more - less) }'
}

cat >"$state/w.yaml" <<YAML
servegate: 1
kind: workload
name: peers
cells:
  - {name: c, concurrency: $streams, requests: REQUESTS, warmup: 0, prompt_tokens: 16, output_tokens: $tokens}
YAML
for n in "$few" "$many"; do sed "s/REQUESTS/$n/" "$state/w.yaml" >"$state/w-$n.yaml"; done

echo "$streams streams, $tokens events an answer, one every $gap ms; $few and $many requests; load average $(cut -d' ' -f1-3 /proc/loadavg)"
echo '| client | CPU s, few | CPU s, many | CPU us an event | events a CPU second |'
echo '|---|---|---|---|---|'
row servegate bash -c "rm -rf $state/runs; exec $gate measure --quiet --workload $state/w-REQUESTS.yaml --url URL --api completions --model m --ignore-eos --runs 1 --out $state/runs"
if [[ -n ${VLLM:-} ]]; then
  row 'vllm bench serve' "$VLLM" bench serve --backend openai --base-url URL --endpoint /v1/completions --model m \
    --tokenizer "$TOKENIZER" --dataset-name random --random-input-len 16 --random-output-len "$tokens" --ignore-eos \
    --num-prompts REQUESTS --max-concurrency "$streams" --disable-tqdm
fi
if [[ -n ${GUIDELLM:-} ]]; then
  row guidellm "$GUIDELLM" run --backend kind=openai_http,target=URL,request_format=/v1/completions,model=m \
    --profile "kind=concurrent,streams=$streams" --constraint kind=max_requests,count=REQUESTS \
    --tokenizer "kind=hf_auto,model=$TOKENIZER" --data "kind=synthetic_text,prompt_tokens=16,output_tokens=$tokens" \
    --output "kind=json,path=$state/guidellm.json" --disable-console
fi
if [[ -n ${AIPERF:-} ]]; then
  row aiperf "$AIPERF" profile --url URL --endpoint-type completions --streaming --model m --tokenizer "$TOKENIZER" \
    --concurrency "$streams" --request-count REQUESTS --isl 16 --osl "$tokens" --extra-inputs ignore_eos:true \
    --artifact-dir "$state/aiperf" --ui none
fi
