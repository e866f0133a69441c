-- Who is uploading a group of items. A row is made by the first upload of its group.
CREATE TABLE redrive.upload_groups (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    upload      text COLLATE "C" NOT NULL,
    group_name  text COLLATE "C" NOT NULL,
    lease_owner text,
    lease_epoch bigint NOT NULL DEFAULT 0 CHECK (lease_epoch >= 0),
    lease_until timestamptz,
    CONSTRAINT upload_groups_name UNIQUE (upload, group_name),
    CONSTRAINT upload_groups_lease_is_whole CHECK ((lease_owner IS NULL) = (lease_until IS NULL))
);

-- What is held, so that looking for ended leases does not read every group there ever was.
CREATE INDEX upload_groups_held ON redrive.upload_groups (id) WHERE lease_owner IS NOT NULL;

-- Numbers of the ledger are given out by the item. After a rollback the ledger still has those there were.
ALTER TABLE redrive.items ADD COLUMN last_attempt bigint NOT NULL DEFAULT 0 CHECK (last_attempt >= 0);
UPDATE redrive.items SET last_attempt = (
    SELECT coalesce(max(attempt), 0) FROM redrive.attempts
    WHERE kind = 'item' AND unit_id = items.id AND stage = ''
);
