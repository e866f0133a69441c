DELETE FROM redrive.plan_units WHERE plan_id = :plan_id AND unit_id IN (
    SELECT unit_id FROM redrive.plan_units WHERE plan_id = :plan_id LIMIT :limit::bigint
)
RETURNING unit_id
