-- session_begin: bounds, in seconds, how long this session waits for a row lock and, where
-- the server can, how long it may sit idle in a transaction: a relay that is frozen
-- inside of one must not keep the lease row. session_end undoes it.
SET @outbox_wait = @@SESSION.innodb_lock_wait_timeout, SESSION innodb_lock_wait_timeout = ?1
  /*M!100300 , @outbox_idle = @@SESSION.idle_transaction_timeout, SESSION idle_transaction_timeout = ?1 */
