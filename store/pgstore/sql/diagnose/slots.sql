-- slots: replication slots that hold a horizon and that nobody reads.
-- Locks: none.
SELECT s.slot_name::text
FROM pg_catalog.pg_replication_slots s
WHERE NOT s.active AND (s.xmin IS NOT NULL OR s.catalog_xmin IS NOT NULL)
ORDER BY s.slot_name
LIMIT 5
