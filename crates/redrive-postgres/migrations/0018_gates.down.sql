DROP VIEW redrive.gate_states;
DROP VIEW redrive.live_permits;
DROP TABLE redrive.gate_permits;
DROP TABLE redrive.gate_keys;
DROP TABLE redrive.gates;
DROP INDEX redrive.partition_work_customers;
ALTER TABLE redrive.partition_work DROP COLUMN customer_id;
ALTER TABLE redrive.samples DROP COLUMN gate_key;
