-- Reads every partition once. No index has the counts, because every verdict would have to update them.
SELECT source, status, count(*) FROM redrive.partition_state GROUP BY source, status
