DROP TABLE redrive.plan_counts;
DROP INDEX redrive.plans_live;
