-- Many groups of a locked plan. Plans that were made before units were counted stay without counts, unless their list begins
-- (:begins).
INSERT INTO redrive.plan_counts AS counted (plan_id, key, state, cause, refusal, outcome, new_cause, ended_from, units)
SELECT :plan_id::bigint, key, state, cause, refusal, outcome, new_cause, ended_from, units
FROM unnest(
    :key::bigint[], :state::text[], :cause::text[], :refusal::text[], :outcome::text[], :new_cause::text[],
    :ended_from::bigint[], :units::bigint[]
) AS given (key, state, cause, refusal, outcome, new_cause, ended_from, units)
WHERE :begins::boolean OR EXISTS (SELECT 1 FROM redrive.plan_counts WHERE plan_id = :plan_id)
ON CONFLICT ON CONSTRAINT plan_counts_key DO UPDATE SET units = counted.units + excluded.units
