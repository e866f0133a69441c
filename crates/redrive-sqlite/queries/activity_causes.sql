-- SQLite takes message and unit from the row with the greatest id.
SELECT
    kind, coalesce(fingerprint, ''), coalesce(code, ''), coalesce(message, ''), unit_id, count(*) AS attempts,
    ended_at, max(id)
FROM attempts WHERE id > ?1 AND id <= ?2 AND (outcome = 'retrying' OR outcome = 'failed')
GROUP BY kind, fingerprint, code
ORDER BY attempts DESC, max(id) DESC LIMIT ?3
