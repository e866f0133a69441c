-- For this transaction only: see the trigger attempts_pruned_alone.
SELECT set_config('redrive.pruning', :prune_key, true)
