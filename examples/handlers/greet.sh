#!/bin/sh
#
# Reads one call per line and writes one reply per line, both as JSON. A shell cannot parse JSON. Only
# the id can be cut out without a parser, because it comes first and has no escapes. From the payload this
# handler takes {"name": "…"} if the name consists of letters. For more, call `jq`, or use another
# language. The id names this attempt; the idempotency key of the work is "unit".

while IFS= read -r call; do
    id=${call#'{"id":"'}
    id=${id%%'"'*}
    name=$(printf '%s\n' "$call" | sed -n 's/.*"payload":{"name":"\([A-Za-z]*\)"}.*/\1/p')
    if [ -n "$name" ]; then
        printf '{"id":"%s","ok":"Hello, %s"}\n' "$id" "$name"
    else
        printf '{"id":"%s","error":{"class":"final","code":"no_name","message":"whom to greet?"}}\n' "$id"
    fi
done
