-- SQLite only: PostgreSQL's move_items returns the number.
SELECT last_attempt FROM items WHERE id = ?1
