-- Counts the pruned samples of a run.
UPDATE pipeline_runs SET
    pruned_succeeded = pruned_succeeded + ?2, pruned_skipped = pruned_skipped + ?3,
    pruned_dlq = pruned_dlq + ?4
WHERE id = ?1
