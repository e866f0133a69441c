"""Classifies a text as short or long. A real model would also be loaded once and called often."""

import redrive

print("loading the model")  # goes to stderr
LIMIT = 20


@redrive.handler
def classify(call):    # call.key is the idempotency key: the same in every attempt
    text = call["payload"].get("text")
    if text is None:
        raise redrive.Final("there is no text", code="no_text")
    if text == "busy" and call["attempt"] == 1:
        raise redrive.Error("come back later", "rate_limited", code=429, retry_after=1)
    if text == "odd":
        return redrive.Judged({"label": "unclear"}, "needs_review")
    return {"label": "long" if len(text) > LIMIT else "short"}


redrive.serve()
