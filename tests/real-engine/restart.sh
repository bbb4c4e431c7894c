#!/usr/bin/env bash
# The target's `restart` command: ends the server that this script started before, and starts the one of the side
# that servegate names. Flags of a side: the file STATE/baseline.flags or STATE/candidate.flags, one flag a line.
set -euo pipefail
state=${SERVEGATE_REAL_STATE:?set by run.sh}
port=${SERVEGATE_REAL_PORT:?set by run.sh}
server=${LLAMA_SERVER:?set by run.sh}

if [[ -f $state/pid ]]; then
  old=$(cat "$state/pid")
  kill "$old" 2>/dev/null || true
  for _ in $(seq 100); do kill -0 "$old" 2>/dev/null || break; sleep 0.1; done
  rm -f "$state/pid"
fi
if [[ ${1:-} == stop ]]; then exit 0; fi

case ${SERVEGATE_SIDE:?set by servegate} in
  candidate) flags=$state/candidate.flags ;;
  *) flags=$state/baseline.flags ;;
esac
mapfile -t args <"$flags"
# The server outlives this script; its output goes to a file of the run. It yields to servegate, whatever priority that
# was given: on a small machine a server with as many threads as cores would hold the client back, and the runs would
# not count.
chrt --other 0 nohup nice -n 10 "$server" "$port" "${args[@]}" >"$state/server.log" 2>&1 </dev/null &
echo $! >"$state/pid"
