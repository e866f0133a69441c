-- Many items, each at most once, with their rows of ledger and journal, in one query. A reset and a replacement
-- record the count at that time; the count itself never decreases. An attempt gets the item's next number, and may name
-- the attempt that it follows. Returns the places in the batch that applied. In the order of the ids: see
-- lock_items. For the LIMIT see finish_runs.
WITH moved AS (
    UPDATE redrive.items AS item SET
        status = step.new_status, updated_at = step.moved_at,
        rejection_reason = coalesce(step.reason, item.rejection_reason),
        attempts_at_reset = CASE
            WHEN step.reset THEN item.upload_attempts ELSE item.attempts_at_reset
        END,
        last_attempt = item.last_attempt + CASE WHEN step.outcome IS NULL THEN 0 ELSE 1 END,
        content_url = coalesce(step.content_url, item.content_url),
        size_bytes = coalesce(step.size_bytes, item.size_bytes),
        sha256 = coalesce(step.sha256, item.sha256),
        error_class = CASE WHEN step.outcome IS NULL THEN item.error_class ELSE step.class END,
        error_code = CASE WHEN step.outcome IS NULL THEN item.error_code ELSE step.code END,
        fingerprint = CASE WHEN step.outcome IS NULL THEN item.fingerprint ELSE step.fingerprint END,
        last_failure_at = CASE WHEN step.class IS NULL THEN item.last_failure_at ELSE step.moved_at END
    FROM (SELECT * FROM unnest(
        :id::bigint[], :old_status::text[], :new_status::text[], :moved_at::timestamptz[],
        :reason::text[], :reset::boolean[], :counted::boolean[], :started_at::timestamptz[],
        :outcome::text[], :class::text[], :code::text[], :message::text[], :fingerprint::text[],
        :cause::text[], :worker::text[], :at::timestamptz[], :actor::text[], :action::text[],
        :unit::text[], :filter::text[], :details::text[], :dedupe_key::text[], :after::bigint[],
        :asked_us::bigint[], :if_sha256::text[], :content_url::text[], :size_bytes::bigint[],
        :sha256::text[]
    ) WITH ORDINALITY AS step (
        id, old_status, new_status, moved_at, reason, reset, counted, started_at, outcome, class,
        code, message, fingerprint, cause, worker, at, actor, action, unit, filter, details,
        dedupe_key, after, asked_us, if_sha256, content_url, size_bytes, sha256, place
    ) ORDER BY id LIMIT cardinality(:id)) AS step
    WHERE item.id = step.id AND item.status = step.old_status
        AND item.last_attempt = coalesce(step.after, item.last_attempt)
        AND item.sha256 = coalesce(step.if_sha256, item.sha256)
    RETURNING step.*, item.last_attempt
),
ledger AS (
    INSERT INTO redrive.attempts (
        kind, unit_id, attempt, counted, started_at, ended_at, outcome, class, code, message,
        fingerprint, cause, worker, asked_us
    )
    SELECT
        'item', id, last_attempt, counted, started_at, moved_at, outcome, class, code, message,
        fingerprint, cause, worker, asked_us
    FROM moved WHERE outcome IS NOT NULL ORDER BY place
),
journalled AS (
    INSERT INTO redrive.journal (at, actor, action, unit, filter, details, dedupe_key)
    SELECT at, actor, action, unit, filter, details, dedupe_key
    FROM moved WHERE action IS NOT NULL ORDER BY place
    ON CONFLICT ON CONSTRAINT journal_dedupe_key DO NOTHING
)
SELECT place FROM moved
