#!/bin/sh
# Prints one row for each hour of the requested day: every line of stdout is a row. The key is in the
# environment, and as JSON on stdin. The last line of stderr may describe the rows.

# Every tenth day the first attempt fails; exit code 75 requests a retry.
case "$REDRIVE_LOGICAL_DATE:$REDRIVE_ATTEMPT" in
*-10:1 | *-20:1)
    echo "the station in $REDRIVE_CUSTOMER_ID does not answer" >&2
    exit 75
    ;;
esac

hour=0
while [ "$hour" -lt 24 ]; do
    printf '{"city": "%s", "day": "%s", "hour": %d, "celsius": %d}\n' \
        "$REDRIVE_CUSTOMER_ID" "$REDRIVE_LOGICAL_DATE" "$hour" $((10 + hour % 12))
    hour=$((hour + 1))
done

echo '{"ok": {"schema_version": "1", "station": "example"}}' >&2
