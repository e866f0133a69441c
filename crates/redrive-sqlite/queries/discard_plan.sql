-- A draft without units.
DELETE FROM plans WHERE id = ?1 AND status = 'draft'
