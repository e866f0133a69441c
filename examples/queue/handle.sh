#!/bin/sh
#
# Handles one run. The call is JSON on standard input, and also in REDRIVE_* variables. The exit code
# and the last line of the output are the result. REDRIVE_UNIT is the same in every attempt: pass it as the
# idempotency key to services that must not act twice.

call=$(cat)

case "$REDRIVE_CATEGORY:$REDRIVE_ATTEMPT" in
flaky:1 | flaky:2)
    echo "the connection was cut" >&2
    exit 75 # retry
    ;;
busy:1)
    # A rate limit. The wait is as long as retry_after and does not count as an attempt.
    echo '{"error": {"class": "rate_limited", "code": 429, "message": "too many orders", "retry_after": 1}}'
    ;;
broken:*)
    echo "the order cannot be read" >&2
    exit 65 # final: a retry cannot help
    ;;
down:*)
    echo "the warehouse does not answer" >&2
    exit 75
    ;;
*)
    printf '{"ok": {"attempt": %d, "bytes_read": %d}}\n' "$REDRIVE_ATTEMPT" "${#call}"
    ;;
esac
