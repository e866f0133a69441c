-- Looks for ready runs before the position of a claim (:from_submitted_at, :from_id) in the pages of the table that are written
-- since :from_page, and tells the claim in the same transaction where the oldest is. Reads nothing else: not the dead entries
-- of the index, and not what others of the queue have there. An inequality that an index could answer would tempt the planner.
-- Returns the pages that the table has now.
WITH older AS (
    SELECT min(submitted_at) AS submitted_at FROM redrive.ready_runs
    WHERE ctid >= format('(%s,0)', :from_page::bigint)::tid AND queue IS NOT DISTINCT FROM :queue
        AND (:categories::text[] IS NULL OR category = ANY (:categories))
        AND ROW (submitted_at, id) < ROW (:from_submitted_at::timestamptz, :from_id::bigint)
)
SELECT
    pg_relation_size('redrive.ready_runs') / current_setting('block_size')::bigint,
    set_config('redrive.oldest_arrival', coalesce(
        least(nullif(current_setting('redrive.oldest_arrival', true), '')::timestamptz, submitted_at)::text, ''
    ), true)
FROM older
