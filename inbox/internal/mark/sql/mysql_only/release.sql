-- release: ends guard.
DO RELEASE_LOCK(CONCAT('outbox_', MD5(COALESCE({{database}}, ''))));
