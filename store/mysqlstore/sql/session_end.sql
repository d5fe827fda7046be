-- session_end: gives the session back as it was.
SET SESSION innodb_lock_wait_timeout = @outbox_wait
  /*M!100300 , SESSION idle_transaction_timeout = @outbox_idle */
