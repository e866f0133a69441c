-- A reader that is new begins at the end.
INSERT INTO redrive.journal_readers (name, settled, seen, seen_at)
VALUES (
    $1, (SELECT coalesce(max(id), 0) FROM redrive.journal),
    (SELECT coalesce(max(id), 0) FROM redrive.journal), $2
)
ON CONFLICT (name) DO NOTHING
