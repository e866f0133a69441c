-- Operators lock runs, then their rows among waiting runs, ready runs and claims: the order in which a run moves on
-- while it is locked. Finishes lock the runs that they change before their claims, too.
SELECT FROM redrive.runs WHERE id = ANY (:ids) ORDER BY id FOR UPDATE
