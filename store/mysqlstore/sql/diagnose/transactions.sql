-- transactions: what keeps the purge of old versions waiting, the oldest first. It
-- takes the privilege PROCESS.
-- Locks: none.
SELECT trx_mysql_thread_id, TIMESTAMPDIFF(SECOND, trx_started, NOW()) AS seconds
FROM information_schema.innodb_trx
WHERE trx_started <= NOW() - INTERVAL ? SECOND AND trx_mysql_thread_id NOT IN (0, CONNECTION_ID())
ORDER BY trx_started
LIMIT 5
