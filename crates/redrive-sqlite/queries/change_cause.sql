-- A given mark (?2) replaces the last one, or removes it. An empty text removes the last one.
UPDATE causes SET
    mark = iif(?2, ?3, mark), marked_at = iif(?2, ?4, marked_at), marked_by = iif(?2, ?5, marked_by),
    returned_at = iif(?2, NULL, returned_at),
    note = nullif(coalesce(?6, note), ''), ticket = nullif(coalesce(?7, ticket), '')
WHERE fingerprint = ?1
