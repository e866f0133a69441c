-- A new reader starts at the end of the journal.
INSERT INTO journal_readers (name, settled, seen, seen_at)
VALUES (
    ?1, (SELECT coalesce(max(id), 0) FROM journal),
    (SELECT coalesce(max(id), 0) FROM journal), ?2
)
ON CONFLICT (name) DO NOTHING
