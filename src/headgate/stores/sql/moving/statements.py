"""Every statement for moving a store, each with its sentence."""

from __future__ import annotations

from headgate.stores.sql.database.sql_text import Statement

READ_CLOCKS = Statement("What time it is: for people, and for leases.", "select {wall}, {now}")
COUNT_LEASES = Statement(
    "What lives by a lease now. A claim that was set by hand ends never, and nobody renews it.",
    """select 'leased lock', count(*) from hg_lock where lease_until > :now
       union all select 'running claim', count(distinct token) from hg_chunk
         where lease_until > :now and lease_until < :never
       union all select 'taken batch', count(*) from hg_batch where lease_until > :now
       union all select 'taken ingest job', count(*) from hg_ingest_job where lease_until > :now""",
)
RAISE_TOKENS = Statement(
    "Every resource's next token is so much greater.", "update hg_resource set token = token + :far"
)
DROP_COUNTER = Statement("The last number is another.", "delete from hg_counter where name = :name")
READ_COUNTERS = Statement("The last numbers that were given.", "select name, value from hg_counter")
READ_LAST_TOKEN = Statement("The greatest token of a lock.", "select max(token) from hg_resource")
RAISE_TO = Statement(
    "No resource's next token is smaller.", "update hg_resource set token = :token where token < :token"
)
