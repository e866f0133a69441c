-- The work of one partition, which is locked since it was read.
DELETE FROM partition_work WHERE partition_id = ?1
