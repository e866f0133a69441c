-- Who is uploading a group of items. A row is made by the first upload of its group.
CREATE TABLE upload_groups (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused: leases name rows by it
    upload      TEXT NOT NULL,
    group_name  TEXT NOT NULL,
    lease_owner TEXT,
    lease_epoch INTEGER NOT NULL DEFAULT 0 CHECK (lease_epoch >= 0),
    lease_until INTEGER,
    UNIQUE (upload, group_name),
    CHECK ((lease_owner IS NULL) = (lease_until IS NULL))
) STRICT;

-- What is held, so that looking for ended leases does not read every group there ever was.
CREATE INDEX upload_groups_held ON upload_groups (id) WHERE lease_owner IS NOT NULL;

-- Numbers of the ledger are given out by the item. After a rollback the ledger still has those there were.
ALTER TABLE items ADD COLUMN last_attempt INTEGER NOT NULL DEFAULT 0 CHECK (last_attempt >= 0);
UPDATE items SET last_attempt = (
    SELECT coalesce(max(attempt), 0) FROM attempts
    WHERE kind = 'item' AND unit_id = items.id AND stage = ''
);
