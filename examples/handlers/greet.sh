#!/bin/sh
#
# Answers call after call: a line of JSON in, a line of JSON out. A shell does not parse JSON. What is
# safe to cut out without a parser is the id, because it comes first and has no escapes in it; of the
# payload this takes {"name": "…"} where the name is letters alone. For more, call `jq`, or use another
# language.

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
