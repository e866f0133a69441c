SELECT id, sha256 FROM items WHERE upload = ?1 AND group_name = ?2 AND name = ?3
