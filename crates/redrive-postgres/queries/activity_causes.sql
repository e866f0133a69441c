SELECT
    cause.kind, coalesce(cause.fingerprint, ''), coalesce(cause.code, ''), coalesce(last.message, ''),
    last.unit_id, cause.attempts, last.ended_at
FROM (
    SELECT kind, fingerprint, code, count(*) AS attempts, max(id) AS last_id
    FROM redrive.attempts WHERE id > :after AND id <= :end AND outcome IN ('retrying', 'failed')
    GROUP BY kind, fingerprint, code
    ORDER BY attempts DESC, last_id DESC LIMIT :limit::bigint
) AS cause JOIN redrive.attempts AS last ON last.id = cause.last_id
ORDER BY cause.attempts DESC, cause.last_id DESC
