#!/bin/sh
# Prints a row for each hour of the day that is asked for. What goes wrong depends on the city and the day.

case "$REDRIVE_CUSTOMER_ID:$REDRIVE_LOGICAL_DATE:$REDRIVE_ATTEMPT" in
berlin:*[27]:1)
    echo "the station in Berlin does not answer" >&2
    exit 75 # the second attempt finds it awake
    ;;
lima:*5:*)
    echo "the station in Lima was struck by lightning" >&2
    exit 75 # and will be, whatever is tried
    ;;
esac

hour=0
while [ "$hour" -lt 24 ]; do
    celsius=$((10 + hour % 12))
    case "$REDRIVE_CUSTOMER_ID:$REDRIVE_LOGICAL_DATE:$hour" in
    nairobi:*8:13) celsius='"broken"' ;; # this is for the validator to find
    esac
    printf '{"city": "%s", "day": "%s", "hour": %d, "celsius": %s}\n' \
        "$REDRIVE_CUSTOMER_ID" "$REDRIVE_LOGICAL_DATE" "$hour" "$celsius"
    hour=$((hour + 1))
done
