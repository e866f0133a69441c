-- PostgreSQL's move_items does this itself.
SELECT last_attempt FROM items WHERE id = ?1
