SELECT coalesce(greatest((SELECT max(id) FROM redrive.attempts), (SELECT max(id) FROM redrive.run_passes)), 0)
