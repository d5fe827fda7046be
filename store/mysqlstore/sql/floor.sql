-- floor: the latest time at which a batch was recorded. Clocks may be coarse or step back.
SELECT COALESCE(TIMESTAMPDIFF(MICROSECOND, {{epoch}}, MAX(recorded_at)), 0)
FROM {{batch}}
