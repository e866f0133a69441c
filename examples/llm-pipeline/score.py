"""A stage that scores answers: the share of the words of the prompt that the answer contains."""

import json
import sys

for line in sys.stdin:
    sample = json.loads(line)["data"]
    words = set(sample["prompt"].lower().split())
    answer = set(sample["answer"].lower().split())
    sample["score"] = round(len(words & answer) / len(words), 2)
    print(json.dumps({"ok": sample}), flush=True)
