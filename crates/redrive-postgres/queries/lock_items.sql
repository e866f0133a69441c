-- PostgreSQL only: SQLite has one writer. Locks in the order of the ids, so that two transactions cannot deadlock.
SELECT FROM redrive.items WHERE id = ANY (:ids) ORDER BY id FOR UPDATE
