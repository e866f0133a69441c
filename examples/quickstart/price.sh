#!/bin/sh
# Prices one dish at one coin per letter. For some dishes the first attempt fails.

call=$(cat)
dish=$(echo "$call" | sed 's/.*"dish":"\([a-z]*\)".*/\1/')
english=$(echo "$call" | sed 's/.*"english":"\([a-z]*\)".*/\1/')

case "$dish:$REDRIVE_ATTEMPT" in
kuchen:1 | honig:1 | honig:2)
    echo "the price list is being printed" >&2
    exit 75
    ;;
esac
printf '{"ok": {"dish": "%s", "english": "%s", "price": %d}}\n' "$dish" "$english" "${#english}"
