#!/bin/sh
# Translates one dish. The call is one line of JSON on standard input; the last line of output is the new sample.

dish=$(sed -n 's/.*"dish":"\([a-z]*\)".*/\1/p')
lists=words.txt
[ -e my-words.txt ] && lists="words.txt my-words.txt"

# shellcheck disable=SC2086 # these are two files
english=$(sed -n "s/^$dish //p" $lists)

if [ "$dish" = wasser ]; then
    echo '{"skip": "water is free"}'
elif [ -n "$english" ]; then
    printf '{"ok": {"dish": "%s", "english": "%s"}}\n' "$dish" "$english"
else
    printf '{"error": {"class": "final", "code": "unknown_word", "message": "\\"%s\\" is not in words.txt"}}\n' "$dish"
fi
