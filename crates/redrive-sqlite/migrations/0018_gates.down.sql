DROP VIEW gate_states;
DROP VIEW live_permits;
DROP TABLE gate_permits;
DROP TABLE gate_keys;
DROP TABLE gates;
DROP INDEX partition_work_customers;
ALTER TABLE partition_work DROP COLUMN customer_id;
DROP INDEX samples_open;
CREATE INDEX samples_open ON samples (run_id, claim_stage, id)
    WHERE status = 'pending' AND next_retry_at IS NULL;
ALTER TABLE samples DROP COLUMN gate_key;
