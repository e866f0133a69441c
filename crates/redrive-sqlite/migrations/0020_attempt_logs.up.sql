-- What handlers logged during attempts. A log may be there before its attempt is in the ledger: it is written while the attempt
-- runs. A repeated attempt of the same number has a later epoch.
CREATE TABLE attempt_logs (
    id         INTEGER PRIMARY KEY,
    kind       TEXT NOT NULL,
    unit_id    INTEGER NOT NULL,
    stage      TEXT NOT NULL,
    attempt    INTEGER NOT NULL,
    epoch      INTEGER NOT NULL,
    worker     TEXT NOT NULL,
    printed    INTEGER NOT NULL,  -- bytes, before anything was left out
    written_at INTEGER NOT NULL,
    log        TEXT NOT NULL,
    UNIQUE (unit_id, kind, stage, attempt)
) STRICT;
