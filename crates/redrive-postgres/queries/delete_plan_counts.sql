-- The counts of a plan whose units are removed page by page. Without them, the units that are left are counted.
DELETE FROM redrive.plan_counts WHERE plan_id = :plan_id
