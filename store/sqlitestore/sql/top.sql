-- top: the highest sequence there is.
SELECT COALESCE(max(sequence), 0)
FROM {{table}}
