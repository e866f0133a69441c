-- A plan without units.
DELETE FROM plans WHERE id = ?1
