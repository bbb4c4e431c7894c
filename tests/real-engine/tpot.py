"""The table of tpot.sh: TPOT as each client has it, beside what the server says of the same requests."""

import json
import re
import statistics
import sys
from pathlib import Path

STATE, ROUNDS, REQUESTS = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
# The server counts n tokens over n - 1 intervals and divides by n; a TPOT divides by n - 1.
TIMING = re.compile(r"(?<!prompt )eval time =\s*([\d.]+) ms /\s*(\d+) tokens")


def of_server(name):
    """The last requests of a block, in ms a token by the definition of a TPOT."""
    found = TIMING.findall((STATE / name).read_text(errors="replace"))[-REQUESTS:]
    return [float(ms) / (int(tokens) - 1) for ms, tokens in found]


def ours(name):
    lines = [json.loads(line) for line in (STATE / name).read_text().splitlines()[1:]]
    return [sum(line["gaps_us"][1:]) / 1000 / (line["output_tokens"] - 1) for line in lines]


def theirs(name):
    result = json.loads((STATE / name).read_text())
    spans = zip(result["itls"], result["output_lens"])
    return [sum(gaps) * 1000 / (tokens - 1) for gaps, tokens in spans]


def row(client, read, log, file):
    values, server, ratios = [], [], []
    for number in range(1, ROUNDS + 1):
        one, other = read(f"{file}-{number}"), of_server(f"{log}-{number}")
        if len(one) != REQUESTS or len(other) != REQUESTS:
            sys.exit(f"{client}, block {number}: {len(one)} requests, {len(other)} timings of the server")
        values += one
        server += other
        ratios += [mine / its for mine, its in zip(one, other)]
    mine, its, ratio = (statistics.median(numbers) for numbers in (values, server, ratios))
    low, high = min(ratios), max(ratios)
    print(f"| {client} | {mine:.3f} | {its:.3f} | {(ratio - 1) * 100:+.2f} % | {(low - 1) * 100:+.2f} to {(high - 1) * 100:+.2f} % |")
    return mine


print(f"{ROUNDS} blocks of {REQUESTS} requests each, in turns; medians over the requests")
print("| client | its TPOT, ms | the server's, ms | difference | over all requests |")
print("|---|---|---|---|---|")
mine = row("servegate", ours, "log-ours", "ours")
if (STATE / "theirs-1").exists():
    other = row("vllm bench serve", theirs, "log-theirs", "theirs")
    print(f"\nservegate against vllm bench serve: {(mine / other - 1) * 100:+.2f} %")
