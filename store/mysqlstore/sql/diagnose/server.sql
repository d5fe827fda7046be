-- server: whether it takes writes and keeps what it confirms.
-- Locks: none.
SELECT @@GLOBAL.read_only, @@GLOBAL.innodb_flush_log_at_trx_commit
