#!/bin/sh
#
# Stands for a program that calls an API. The API allows the customer "acme" one call in five seconds; the file
# acme-called is its memory. A run has its customer as the category, a sample has it in its data.

read -r call
customer=$REDRIVE_CATEGORY
case "$call" in *'"customer":"acme"'*) customer=acme ;; esac

if [ "$customer" = acme ]; then
    # One call at a time looks at the file.
    exec 9>acme-lock
    flock 9
    now=$(date +%s)
    last=$(cat acme-called 2>/dev/null || echo 0)
    wait=$((last + 5 - now))
    if [ "$wait" -gt 0 ]; then
        printf '{"error": {"class": "rate_limited", "code": 429, "message": "acme is over its quota", "retry_after": %d}}\n' "$wait"
        exit
    fi
    echo "$now" >acme-called
fi
echo '{"ok": {"answer": true}}'
