DROP VIEW redrive.gate_states;
DROP VIEW redrive.live_permits;
DROP TABLE redrive.gate_permits;
DROP TABLE redrive.gate_keys;
DROP TABLE redrive.gates;
DROP INDEX redrive.partition_work_customers;
ALTER TABLE redrive.partition_work DROP COLUMN customer_id;
DROP INDEX redrive.samples_open;
CREATE INDEX samples_open ON redrive.samples (run_id, claim_stage, id)
    WHERE status = 'pending' AND next_retry_at IS NULL;
ALTER TABLE redrive.samples DROP COLUMN gate_key;
