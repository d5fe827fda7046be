-- increment: how far apart the numbers of one INSERT are.
SELECT @@SESSION.auto_increment_increment
