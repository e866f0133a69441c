-- One item, unless it was acknowledged.
DELETE FROM items WHERE id = ?1 AND status IN ('pending', 'upload_giveup')
