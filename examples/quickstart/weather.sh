#!/bin/sh
# Prints a row for each hour of the requested day. Failures depend on the city and the day.

case "$REDRIVE_CUSTOMER_ID:$REDRIVE_LOGICAL_DATE:$REDRIVE_ATTEMPT" in
berlin:*[27]:1)
    echo "the station in Berlin does not answer" >&2
    exit 75 # the second attempt succeeds
    ;;
lima:*5:*)
    echo "the station in Lima was struck by lightning" >&2
    exit 75 # every attempt fails
    ;;
esac

hour=0
while [ "$hour" -lt 24 ]; do
    celsius=$((10 + hour % 12))
    case "$REDRIVE_CUSTOMER_ID:$REDRIVE_LOGICAL_DATE:$hour" in
    nairobi:*8:13) celsius='"broken"' ;; # the validator rejects this value
    esac
    printf '{"city": "%s", "day": "%s", "hour": %d, "celsius": %s}\n' \
        "$REDRIVE_CUSTOMER_ID" "$REDRIVE_LOGICAL_DATE" "$hour" "$celsius"
    hour=$((hour + 1))
done
