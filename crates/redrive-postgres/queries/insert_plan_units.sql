-- Many units. Those that the plan has stay as they are. Returns the new ones.
WITH added AS (
    INSERT INTO redrive.plan_units (plan_id, unit_id, state, version, cause, refusal)
    SELECT :plan_id::bigint, unit_id, state, version, cause, refusal
    FROM unnest(:unit_id::bigint[], :state::text[], :version::bigint[], :cause::text[], :refusal::text[])
        AS given (unit_id, state, version, cause, refusal)
    ON CONFLICT ON CONSTRAINT plan_units_key DO NOTHING
    RETURNING unit_id
)
SELECT unit_id FROM added
