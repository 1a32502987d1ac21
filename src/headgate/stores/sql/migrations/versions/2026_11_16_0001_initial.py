"""The initial schema: the tables declared in schema.py.

Until the first release it is edited: a change of a table changes this migration. The release will write the tables out
here, and every later change will be a separate migration.
"""

from __future__ import annotations

from alembic import op

from headgate.stores.sql.schema import metadata

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

#: A transaction that makes a chunk claimable shares the lock of the job's mark until its end, and lowers the mark if
#: necessary. The number is that of the locks for raising the mark.
LOWER_MARK = """
create or replace function hg_lower_mark_1() returns trigger language plpgsql as $routine$
declare
  first record;
begin
  for first in
    select distinct on (job_id) job_id, order_key from changed where missing = 0 and place = 1
    order by job_id, order_key
  loop
    perform pg_advisory_xact_lock_shared(1751608683, first.job_id);
    update hg_mark set order_key = first.order_key where job_id = first.job_id and order_key > first.order_key;
  end loop;
  return null;
end $routine$"""
TRIGGER = """
create or replace trigger hg_lower_mark_{event} after {event} on hg_candidate
referencing new table as changed for each statement execute function hg_lower_mark_1()"""


def upgrade() -> None:
    metadata.create_all(op.get_bind())
    # The stamp that shows a process whether its cached jobs and datasets are current.
    op.execute("insert into hg_meta (name, value) values ('definitions', 'new')")
    if op.get_bind().dialect.name == "postgresql":
        op.execute(LOWER_MARK)
        for event in ("insert", "update"):
            op.execute(TRIGGER.format(event=event))
