DROP VIEW gate_states;
DROP VIEW live_permits;
DROP TABLE gate_permits;
DROP TABLE gate_keys;
DROP TABLE gates;
DROP INDEX partition_work_customers;
ALTER TABLE partition_work DROP COLUMN customer_id;
ALTER TABLE samples DROP COLUMN gate_key;
