-- session: what a session must be like to read and write text as it is.
SELECT VERSION(), @@autocommit, COALESCE(@@character_set_client, ''), COALESCE(@@character_set_results, '')
