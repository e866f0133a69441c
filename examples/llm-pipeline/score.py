"""A stage that scores answers: the share of the prompt's words that the answer takes up."""

import json
import sys

for line in sys.stdin:
    sample = json.loads(line)["data"]
    words = set(sample["prompt"].lower().split())
    answer = set(sample["answer"].lower().split())
    sample["score"] = round(len(words & answer) / len(words), 2)
    print(json.dumps({"ok": sample}), flush=True)
