-- Many units of a locked plan. Only a unit that becomes pending has what an undo returns. For the LIMIT see finish_runs.
UPDATE redrive.plan_units AS unit SET
    outcome = given.outcome, reason = given.reason, outcome_at = :outcome_at::timestamptz,
    new_cause = given.new_cause, undo = coalesce(given.undo, unit.undo)
FROM (SELECT * FROM unnest(
    :unit_id::bigint[], :outcome::text[], :reason::text[], :new_cause::text[], :undo::text[]
) AS given (unit_id, outcome, reason, new_cause, undo) LIMIT cardinality(:unit_id)) AS given
WHERE unit.plan_id = :plan_id AND unit.unit_id = given.unit_id
