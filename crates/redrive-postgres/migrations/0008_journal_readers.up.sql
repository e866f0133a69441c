-- Who reads the journal on and on, and how far. Places below `settled` are done with; those up to `seen`
-- were read once, and are read again in case an entry appears late.
CREATE TABLE redrive.journal_readers (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name    text COLLATE "C" NOT NULL UNIQUE,
    settled bigint NOT NULL CHECK (settled >= 0),
    seen    bigint NOT NULL,
    seen_at timestamptz NOT NULL,
    CONSTRAINT journal_readers_settled_was_seen CHECK (seen >= settled)
);
