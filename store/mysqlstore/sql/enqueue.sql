-- enqueue: messages in the caller's transaction. The values are parameters of the
-- driver, so that one text serves every message: callers may cache prepared statements.
-- Text is sent as bytes, because the caller's connection may have any character set.
-- Locks: the new rows and their entry in {{prefix}}_event_id.
INSERT INTO {{table}} ({{insert}})
VALUES {{rows}}
