-- Operators lock runs, which keeps other operators away, then their rows among waiting runs, ready runs and claims: the
-- order in which a run moves on while it is locked. Nothing else locks runs.
SELECT FROM redrive.runs WHERE id = ANY (:ids) ORDER BY id FOR UPDATE
