-- Reads every partition once. No index has the counts; keeping them would be paid by every verdict.
SELECT source, status, count(*) FROM partition_state GROUP BY source, status
