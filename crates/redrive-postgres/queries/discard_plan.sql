-- A draft without units.
DELETE FROM redrive.plans WHERE id = :id AND status = 'draft'
