-- The first and the last category with ready runs; one lookup each.
SELECT
    (SELECT min(category) FROM runs WHERE queue = ?1 AND ready = 1),
    (SELECT max(category) FROM runs WHERE queue = ?1 AND ready = 1)
