#!/bin/sh
#
# Handles one run. The call comes as JSON on standard input and in REDRIVE_* variables; the exit code
# and the last line of the output say how it went.

call=$(cat)

case "$REDRIVE_CATEGORY:$REDRIVE_ATTEMPT" in
flaky:1 | flaky:2)
    echo "the connection was cut" >&2
    exit 75 # try again
    ;;
busy:1)
    # A server that asks for patience. The wait is as long as it says, and does not count.
    echo '{"error": {"class": "rate_limited", "code": 429, "message": "too many orders", "retry_after": 0.5}}'
    ;;
broken:*)
    echo "the order cannot be read" >&2
    exit 65 # final: trying again cannot help
    ;;
down:*)
    echo "the warehouse does not answer" >&2
    exit 75
    ;;
*)
    printf '{"ok": {"attempt": %d, "bytes_read": %d}}\n' "$REDRIVE_ATTEMPT" "${#call}"
    ;;
esac
