-- Notes what a sample passes gates with, and makes it ready.
UPDATE samples SET gate_key = ?2, next_retry_at = NULL WHERE id = ?1
