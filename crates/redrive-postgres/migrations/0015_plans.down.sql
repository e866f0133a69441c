DROP TABLE redrive.plan_units;
DROP TABLE redrive.plans;
