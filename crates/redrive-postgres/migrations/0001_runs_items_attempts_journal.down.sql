DROP TABLE redrive.journal;
DROP TABLE redrive.attempts;
DROP TABLE redrive.items;
DROP TABLE redrive.paused_queues;
DROP TABLE redrive.runs;
DROP FUNCTION redrive.refuse_change();
