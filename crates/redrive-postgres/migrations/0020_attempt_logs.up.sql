-- What handlers logged during attempts. A log may be there before its attempt is in the ledger: it is written while the attempt
-- runs. A repeated attempt of the same number has a later epoch.
CREATE TABLE redrive.attempt_logs (
    kind       text COLLATE "C" NOT NULL,
    unit_id    bigint NOT NULL,
    stage      text COLLATE "C" NOT NULL,
    attempt    bigint NOT NULL,
    epoch      bigint NOT NULL,
    worker     text NOT NULL,
    printed    bigint NOT NULL,  -- bytes, before anything was left out
    written_at timestamptz NOT NULL,
    log        text NOT NULL,
    CONSTRAINT attempt_logs_key PRIMARY KEY (unit_id, kind, stage, attempt)
);
