-- leave: a relay that stops need not be waited for.
DELETE FROM {{relay}} WHERE instance = $1
