-- A plan, read in the same transaction.
UPDATE plans SET
    settings = ?2, status = ?3, ordered_by = ?4, ordered_reason = ?5, frozen_at = ?6, started_at = ?7, ended_at = ?8,
    stop_reason = ?9, total = ?10, changed = ?11, skipped = ?12, pending = ?13, recovered = ?14, same_cause = ?15,
    other_cause = ?16, superseded = ?17, undone = ?18, last_unit = ?19, undo_unit = ?20, ramp_from = ?21,
    next_at = ?22, lease_owner = ?23, lease_until = ?24, reason = ?25
WHERE id = ?1
