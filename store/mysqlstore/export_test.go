package mysqlstore

import "database/sql"

// DB is the pool of a store.
func DB(s *Store) *sql.DB { return s.db }
