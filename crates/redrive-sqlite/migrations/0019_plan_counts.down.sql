DROP TABLE plan_counts;
DROP INDEX plans_live;
