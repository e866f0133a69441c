DROP TABLE partition_work;
DROP TABLE partition_state;
