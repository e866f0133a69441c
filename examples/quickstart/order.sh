#!/bin/sh
# Handles one order. The exit code and the last line say how it went; docs/handlers.md has all of it.

case "$REDRIVE_CATEGORY:$REDRIVE_ATTEMPT" in
slow:*)
    sleep 5
    echo '{"ok": "it took its time"}'
    ;;
flaky:1 | flaky:2)
    echo "the connection to the till was cut" >&2
    exit 75 # try again
    ;;
busy:1)
    # Asks for patience: the wait is as long as this says, and does not count.
    echo '{"error": {"class": "rate_limited", "code": 429, "message": "too many orders at once", "retry_after": 6}}'
    ;;
down:*)
    echo "the fishmonger does not answer" >&2
    exit 75 # again and again, until the policy gives up
    ;;
broken:*)
    echo "the order cannot be read" >&2
    exit 65 # final: trying again cannot help
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
