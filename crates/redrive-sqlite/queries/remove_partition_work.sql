-- The work row of one partition. The partition is locked since it was read.
DELETE FROM partition_work WHERE partition_id = ?1
