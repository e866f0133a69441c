-- An item changes at least once, and its name is then in this index twice. Where pages have room for that, they are
-- not split.
ALTER INDEX redrive.items_upload_group_name_name_key SET (fillfactor = 50);
