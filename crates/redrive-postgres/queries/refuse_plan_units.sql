-- Many units of a locked plan that were expected to be changed.
UPDATE redrive.plan_units AS unit SET refusal = given.refusal
FROM unnest(:unit_id::bigint[], :refusal::text[]) AS given (unit_id, refusal)
WHERE unit.plan_id = :plan_id AND unit.unit_id = given.unit_id AND unit.outcome IS NULL AND unit.refusal IS NULL
RETURNING unit.state, unit.cause, unit.refusal
