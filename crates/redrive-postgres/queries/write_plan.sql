-- A plan, locked since it was read.
UPDATE redrive.plans SET
    settings = :settings, status = :status, ordered_by = :ordered_by, ordered_reason = :ordered_reason,
    frozen_at = :frozen_at, started_at = :started_at, ended_at = :ended_at, stop_reason = :stop_reason, total = :total,
    changed = :changed, skipped = :skipped, pending = :pending, recovered = :recovered, same_cause = :same_cause,
    other_cause = :other_cause, superseded = :superseded, undone = :undone, last_unit = :last_unit,
    undo_unit = :undo_unit, ramp_from = :ramp_from, next_at = :next_at, lease_owner = :lease_owner,
    lease_until = :lease_until, reason = :reason
WHERE id = :id
