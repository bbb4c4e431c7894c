#!/usr/bin/env bash
# How long the binary takes to start: 50 times `servegate --help`, and the processor time of all of them.
# By hand, after `cargo build --release`; docs/performance.md has the figures.
set -euo pipefail
cd "$(dirname "$0")/../.."
binary=${1:-target/release/servegate}
starts=50

"$binary" --help >/dev/null # into the page cache
times_us=()
TIMEFORMAT='%U %S'
processor=$( { time for ((n = 0; n < starts; n++)); do "$binary" --help >/dev/null; done; } 2>&1)
for ((n = 0; n < starts; n++)); do
  from=$EPOCHREALTIME
  "$binary" --help >/dev/null
  to=$EPOCHREALTIME
  times_us+=($((${to%[.,]*} * 1000000 + 10#${to#*[.,]} - ${from%[.,]*} * 1000000 - 10#${from#*[.,]})))
done
mapfile -t sorted < <(printf '%s\n' "${times_us[@]}" | sort -n)
echo "$starts starts: median ${sorted[starts / 2]} us, fastest ${sorted[0]} us, slowest ${sorted[starts - 1]} us of wall time"
echo "user and system seconds of $starts starts: $processor"
echo "size $(stat -c %s "$binary") bytes; load average $(cut -d' ' -f1-3 /proc/loadavg)"
