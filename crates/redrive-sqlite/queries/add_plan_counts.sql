-- One group. Plans that were made before units were counted stay without counts, unless their list begins (?10).
INSERT INTO plan_counts (plan_id, key, state, cause, refusal, outcome, new_cause, ended_from, units)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9
WHERE ?10 OR EXISTS (SELECT 1 FROM plan_counts WHERE plan_id = ?1)
ON CONFLICT (plan_id, key) DO UPDATE SET units = units + excluded.units
