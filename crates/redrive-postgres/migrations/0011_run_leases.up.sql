-- The reaper asks for leases by their end and must not read every run for the answer. The predicate is
-- lease_owner and not status: finishes compare the status, so the planner cannot use this index for them.
CREATE INDEX runs_held ON redrive.runs (lease_until) WHERE lease_owner IS NOT NULL;
