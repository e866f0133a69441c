-- Notes what a sample passes gates with.
UPDATE samples SET gate_key = ?2 WHERE id = ?1
