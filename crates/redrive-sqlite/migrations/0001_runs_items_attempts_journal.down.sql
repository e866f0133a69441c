DROP TABLE lease_clock;
DROP TABLE journal;
DROP TABLE attempts;
DROP TABLE items;
DROP TABLE paused_queues;
DROP TABLE runs;
