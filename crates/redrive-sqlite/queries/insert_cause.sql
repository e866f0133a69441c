-- The first message of a cause stays.
INSERT INTO causes (fingerprint, class, code, message, first_at)
VALUES (?1, coalesce(?2, ''), coalesce(?3, ''), coalesce(?4, ''), ?5) ON CONFLICT (fingerprint) DO NOTHING
