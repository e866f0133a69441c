-- The columns of partition_state are fixed.
INSERT INTO partition_failures (partition_id, class, code, fingerprint, failed_at)
VALUES (?1, coalesce(?2, ''), coalesce(?3, ''), ?4, ?5)
ON CONFLICT (partition_id) DO UPDATE SET
    class = excluded.class, code = excluded.code, fingerprint = excluded.fingerprint,
    failed_at = excluded.failed_at
