-- A cause comes back if an attempt fails that began (?2) after the cause was marked as fixed. It is reported once.
UPDATE causes SET returned_at = ?3
WHERE fingerprint = ?1 AND mark = 'fixed' AND returned_at IS NULL AND marked_at < ?2
