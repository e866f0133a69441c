-- A locked plan without units.
DELETE FROM redrive.plans WHERE id = :id
