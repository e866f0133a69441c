"""A stage that cleans prompts: reads one call per line, writes one reply per line."""

import json
import sys

for line in sys.stdin:
    sample = json.loads(line)["data"]
    prompt = " ".join(str(sample.get("prompt", "")).split())
    if prompt:
        reply = {"ok": {**sample, "prompt": prompt}}
    else:
        reply = {"skip": "there is no prompt"}
    print(json.dumps(reply), flush=True)
