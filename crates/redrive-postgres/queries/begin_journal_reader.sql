-- A new reader starts at the end of the journal.
INSERT INTO redrive.journal_readers (name, settled, seen, seen_at)
VALUES (
    :name, (SELECT coalesce(max(id), 0) FROM redrive.journal),
    (SELECT coalesce(max(id), 0) FROM redrive.journal), :now
)
ON CONFLICT (name) DO NOTHING
