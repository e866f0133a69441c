-- How many runs of queues (:places) are held: those of one category (:key), or all.
SELECT count(*)
FROM redrive.run_claims AS claim CROSS JOIN LATERAL unnest(claim.run_ids) AS held (id)
CROSS JOIN LATERAL (SELECT category FROM redrive.runs WHERE runs.id = held.id LIMIT 1) AS run
WHERE claim.queue = ANY (:places) AND (:key::text IS NULL OR run.category = :key)
