DROP TABLE redrive.partition_work;
DROP TABLE redrive.partition_state;
