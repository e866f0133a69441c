-- lease_owner and not status: see runs_held in the schema.
SELECT min(lease_until) FROM redrive.runs WHERE lease_owner IS NOT NULL AND lease_until > :after
