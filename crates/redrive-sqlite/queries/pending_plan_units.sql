-- Named, because the planner prefers the primary key, which has the units that ended as well.
SELECT unit_id, state, version, cause, refusal, outcome, reason, outcome_at, new_cause, undo
FROM plan_units INDEXED BY plan_units_pending
WHERE plan_id = ?1 AND unit_id > ?2 AND outcome = 'pending'
ORDER BY unit_id LIMIT ?3
