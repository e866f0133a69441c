-- For the transaction alone: see the trigger attempts_pruned_alone.
SELECT set_config('redrive.pruning', :prune_key, true)
