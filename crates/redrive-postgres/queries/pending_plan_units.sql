SELECT unit_id, state, version, cause, refusal, outcome, reason, outcome_at, new_cause, undo
FROM redrive.plan_units WHERE plan_id = :plan_id AND unit_id > :after AND outcome = 'pending'
ORDER BY unit_id LIMIT :limit::bigint
