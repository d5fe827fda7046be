# The tables of {{schema}}.{{prefix}} at the latest version, for Atlas. The tables
# outbox_* are shared by all outboxes of the schema: declare them once.
schema "{{schema}}" {}

table "{{prefix}}" {
  schema = schema.{{schema}}
  column "sequence" {
    type = bigint
    null = false
    identity {
      generated = BY_DEFAULT
    }
  }
  column "created_at" {
    type    = timestamptz
    null    = false
    default = sql("now()")
  }
  column "available_at" {
    type    = timestamptz
    null    = false
    default = sql("now()")
  }
  column "published_at" {
    type = timestamptz
    null = true
  }
  column "dead_at" {
    type = timestamptz
    null = true
  }
  column "locked_at" {
    type = timestamptz
    null = true
  }
  column "event_id" {
    type    = uuid
    null    = false
    default = sql("gen_random_uuid()")
  }
  column "attempts" {
    type    = integer
    null    = false
    default = 0
  }
  column "event_version" {
    type = integer
    null = true
  }
  column "crashes" {
    type    = smallint
    null    = false
    default = 0
  }
  column "replays" {
    type    = smallint
    null    = false
    default = 0
  }
  column "slot" {
    type = smallint
    null = false
    as {
      expr = "{{hash}}"
      type = STORED
    }
  }
  column "tenant_id" {
    type    = text
    null    = false
    default = ""
  }
  column "topic" {
    type = text
    null = false
  }
  column "msg_key" {
    type    = text
    null    = false
    default = ""
    collate = "C"
  }
  column "aggregate_type" {
    type = text
    null = true
  }
  column "aggregate_id" {
    type = text
    null = true
  }
  column "event_type" {
    type = text
    null = true
  }
  column "content_type" {
    type = text
    null = true
  }
  column "headers" {
    type = json
    null = true
  }
  column "traceparent" {
    type = text
    null = true
  }
  column "tracestate" {
    type = text
    null = true
  }
  column "dead_reason" {
    type = text
    null = true
  }
  column "last_error" {
    type = text
    null = true
  }
  column "routes_done" {
    type = sql("text[]")
    null = true
  }
  column "payload" {
    type = {{payload}}
    null = false
  }
  primary_key {
    columns = [column.sequence]
  }
  unique "{{prefix}}_event_id_key" {
    columns = [column.event_id]
  }
  check "{{prefix}}_attempts_nonnegative" {
    expr = "attempts >= 0"
  }
  index "{{prefix}}_due" {
    columns = [column.available_at, column.sequence]
    where   = "available_at > created_at"
  }
  index "{{prefix}}_dead" {
    columns = [column.sequence]
    include = [column.dead_reason]
    where   = "dead_at IS NOT NULL"
  }
  storage_params {
    fillfactor = 50
  }
}

table "{{prefix}}_lease" {
  schema = schema.{{schema}}
  column "shard" {
    type = smallint
    null = false
  }
  column "slot_lo" {
    type = smallint
    null = false
  }
  column "slot_hi" {
    type = smallint
    null = false
  }
  column "owner" {
    type = uuid
    null = true
  }
  column "instance" {
    type = text
    null = true
  }
  column "epoch" {
    type    = bigint
    null    = false
    default = 0
  }
  column "expires_at" {
    type = timestamptz
    null = true
  }
  column "draining" {
    type    = boolean
    null    = false
    default = false
  }
  column "nudge" {
    type    = bigint
    null    = false
    default = 0
  }
  column "low" {
    type    = bigint
    null    = false
    default = 0
  }
  column "system_id" {
    type = bigint
    null = true
  }
  column "timeline" {
    type = bigint
    null = true
  }
  primary_key {
    columns = [column.shard]
  }
}

table "{{prefix}}_batch" {
  schema = schema.{{schema}}
  column "shard" {
    type = smallint
    null = false
  }
  column "epoch" {
    type = bigint
    null = false
  }
  column "no" {
    type = bigint
    null = false
  }
  column "ids" {
    type = sql("int8multirange")
    null = false
  }
  column "crashes" {
    type    = smallint
    null    = false
    default = 0
  }
  column "in_flight" {
    type    = boolean
    null    = false
    default = true
  }
  column "solo" {
    type    = boolean
    null    = false
    default = false
  }
  column "lost" {
    type    = boolean
    null    = false
    default = false
  }
  column "beat" {
    type = timestamptz
    null = true
  }
  column "recorded_at" {
    type    = timestamptz
    null    = false
    default = sql("clock_timestamp()")
  }
  column "server" {
    type    = timestamptz
    null    = false
    default = sql("pg_postmaster_start_time()")
  }
  primary_key {
    columns = [column.shard, column.epoch, column.no]
  }
}

table "{{prefix}}_relay" {
  schema = schema.{{schema}}
  column "instance" {
    type = text
    null = false
  }
  column "version" {
    type    = text
    null    = false
    default = ""
  }
  column "seen_at" {
    type    = timestamptz
    null    = false
    default = sql("clock_timestamp()")
  }
  column "ttl" {
    type = interval
    null = false
  }
  column "note" {
    type    = json
    null    = false
    default = "{}"
  }
  primary_key {
    columns = [column.instance]
  }
}

table "{{prefix}}_attempt" {
  schema = schema.{{schema}}
  column "id" {
    type = bigint
    null = false
    identity {
      generated = ALWAYS
    }
  }
  column "sequence" {
    type = bigint
    null = false
  }
  column "at" {
    type    = timestamptz
    null    = false
    default = sql("clock_timestamp()")
  }
  column "attempt" {
    type = integer
    null = false
  }
  column "route" {
    type    = text
    null    = false
    default = ""
  }
  column "outcome" {
    type = text
    null = false
  }
  column "error" {
    type    = text
    null    = false
    default = ""
  }
  column "took" {
    type    = bigint
    null    = false
    default = 0
  }
  primary_key {
    columns = [column.id]
  }
  index "{{prefix}}_attempt_by_message" {
    columns = [column.sequence, column.id]
  }
}

table "outbox_migration" {
  schema = schema.{{schema}}
  column "table_name" {
    type = text
    null = false
  }
  column "version" {
    type = integer
    null = false
  }
  column "name" {
    type = text
    null = false
  }
  column "applied_at" {
    type    = timestamptz
    null    = false
    default = sql("now()")
  }
  primary_key {
    columns = [column.table_name, column.version]
  }
}

table "outbox_audit" {
  schema = schema.{{schema}}
  column "id" {
    type = bigint
    null = false
    identity {
      generated = ALWAYS
    }
  }
  column "at" {
    type    = timestamptz
    null    = false
    default = sql("clock_timestamp()")
  }
  column "table_name" {
    type = text
    null = false
  }
  column "actor" {
    type = text
    null = false
  }
  column "verb" {
    type = text
    null = false
  }
  column "event_id" {
    type = uuid
    null = true
  }
  column "sequence" {
    type = bigint
    null = true
  }
  column "reason" {
    type = text
    null = false
  }
  column "status_before" {
    type = text
    null = true
  }
  column "status_after" {
    type = text
    null = true
  }
  column "route" {
    type    = text
    null    = false
    default = ""
  }
  column "msg_key" {
    type    = text
    null    = false
    default = ""
  }
  column "filter" {
    type = json
    null = true
  }
  column "messages" {
    type    = integer
    null    = false
    default = 0
  }
  primary_key {
    columns = [column.id]
  }
  index "outbox_audit_event" {
    columns = [column.event_id]
    where   = "event_id IS NOT NULL"
  }
}

table "outbox_job" {
  schema = schema.{{schema}}
  column "id" {
    type = uuid
    null = false
  }
  column "table_name" {
    type = text
    null = false
  }
  column "verb" {
    type = text
    null = false
  }
  column "filter" {
    type = json
    null = false
  }
  column "expect" {
    type = integer
    null = false
  }
  column "cap" {
    type = integer
    null = false
  }
  column "rate" {
    type = integer
    null = false
  }
  column "actor" {
    type = text
    null = false
  }
  column "reason" {
    type = text
    null = false
  }
  column "state" {
    type = text
    null = false
  }
  column "total" {
    type = integer
    null = false
  }
  column "done" {
    type    = integer
    null    = false
    default = 0
  }
  column "cursor" {
    type    = bigint
    null    = false
    default = 0
  }
  column "cut" {
    type = timestamptz
    null = false
  }
  column "next_at" {
    type = timestamptz
    null = true
  }
  column "driver" {
    type    = text
    null    = false
    default = ""
  }
  column "driven_at" {
    type = timestamptz
    null = true
  }
  column "created_at" {
    type = timestamptz
    null = false
  }
  column "updated_at" {
    type = timestamptz
    null = false
  }
  primary_key {
    columns = [column.id]
  }
}

table "outbox_route" {
  schema = schema.{{schema}}
  column "table_name" {
    type = text
    null = false
  }
  column "route" {
    type = text
    null = false
  }
  column "paused_at" {
    type = timestamptz
    null = true
  }
  column "paused_by" {
    type = text
    null = true
  }
  column "reason" {
    type = text
    null = true
  }
  column "note" {
    type = json
    null = true
  }
  column "updated_at" {
    type    = timestamptz
    null    = false
    default = sql("clock_timestamp()")
  }
  primary_key {
    columns = [column.table_name, column.route]
  }
}
