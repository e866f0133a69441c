-- Who reads the journal on and on, and how far. Places below `settled` are done with; those up to `seen`
-- were read once, and are read again in case an entry appears late.
CREATE TABLE journal_readers (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    name    TEXT NOT NULL UNIQUE,
    settled INTEGER NOT NULL CHECK (settled >= 0),
    seen    INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    CHECK (seen >= settled)
) STRICT;
