-- A given mark (:marks) replaces the last one, or removes it. An empty text removes the last one.
UPDATE redrive.causes SET
    mark = CASE WHEN :marks THEN :mark ELSE mark END,
    marked_at = CASE WHEN :marks THEN :marked_at ELSE marked_at END,
    marked_by = CASE WHEN :marks THEN :marked_by ELSE marked_by END,
    returned_at = CASE WHEN :marks THEN NULL ELSE returned_at END,
    note = nullif(coalesce(:note, note), ''), ticket = nullif(coalesce(:ticket, ticket), '')
WHERE fingerprint = :fingerprint
RETURNING fingerprint
