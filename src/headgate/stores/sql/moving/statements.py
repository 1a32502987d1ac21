"""Every statement for moving a store, each with its sentence."""

from __future__ import annotations

from headgate.stores.sql.database.sql_text import Statement

READ_CLOCKS = Statement("The current time, on the wall clock and the lease clock.", "select {wall}, {now}")
COUNT_LEASES = Statement(
    "Everything with an active lease. A claim that was set by hand never ends, and is not renewed.",
    """select 'leased lock', count(*) from hg_lock where lease_until > :now
       union all select 'running claim', count(distinct token) from hg_chunk
         where lease_until > :now and lease_until < :never
       union all select 'taken batch', count(*) from hg_batch where lease_until > :now
       union all select 'taken ingest job', count(*) from hg_ingest_job where lease_until > :now""",
)
RAISE_TOKENS = Statement(
    "Raise every resource's next token by this much.", "update hg_resource set token = token + :far"
)
DROP_COUNTER = Statement("Set the last number.", "delete from hg_counter where name = :name")
READ_COUNTERS = Statement("The last issued numbers.", "select name, value from hg_counter")
READ_LAST_TOKEN = Statement("The greatest token of a lock.", "select max(token) from hg_resource")
RAISE_TO = Statement(
    "Raise every resource's next token to at least this.", "update hg_resource set token = :token where token < :token"
)
