#!/bin/sh
# Handles one order. The exit code and the last line are the result; see docs/handlers.md.

case "$REDRIVE_CATEGORY:$REDRIVE_ATTEMPT" in
slow:*)
    sleep 5
    echo '{"ok": "it took its time"}'
    ;;
flaky:1 | flaky:2)
    echo "the connection to the till was cut" >&2
    exit 75 # retry
    ;;
busy:1)
    # A rate limit: the wait is as long as retry_after and does not count as an attempt.
    echo '{"error": {"class": "rate_limited", "code": 429, "message": "too many orders at once", "retry_after": 6}}'
    ;;
down:*)
    echo "the fishmonger does not answer" >&2
    exit 75 # retried until the policy gives up
    ;;
broken:*)
    echo "the order cannot be read" >&2
    exit 65 # final: a retry cannot help
    ;;
odd:*)
    echo '{"ok": {"why": "nobody orders 1000 eggs"}, "verdict": "needs_review"}'
    ;;
sold-out:*)
    echo '{"ok": {"why": "sold out"}, "verdict": "failed"}'
    ;;
*)
    echo '{"ok": "packed"}'
    ;;
esac
