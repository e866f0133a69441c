-- For this transaction only: see the trigger attempts_pruned_alone. Prunes wait for each other: units of two of them may
-- share a row of the ledger, which each would write as it read the row. The key is `prune` in ASCII; migrations and gates have others.
SELECT set_config('redrive.pruning', :prune_key, true), pg_advisory_xact_lock(482956635749)
