-- Of the kinds, summed.
SELECT started_at, outcome, sum(attempts)::bigint, sum(took)::bigint FROM redrive.attempt_counts
WHERE seconds = :seconds AND kind = ANY (:kinds::text[]) AND place = :place AND started_at >= :since
GROUP BY started_at, outcome ORDER BY started_at, outcome
