DROP TABLE plan_units;
DROP TABLE plans;
