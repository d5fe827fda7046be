-- floor: a time later than any batch was recorded. Clocks may be coarse or step back.
SELECT COALESCE(max(recorded_at), 0) + 1
FROM {{batch}}
