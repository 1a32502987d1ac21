"""The ledger's speed: where find_next begins to look."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_nopad_bin"}
ORDER_KEY = sa.LargeBinary(1300).with_variant(mysql.VARBINARY(1300), "mysql", "mariadb")
#: Who makes something claimable holds the job's mark together with others until the end of the transaction, and lowers
#: it if need be. The number is that of the locks by which the mark is raised.
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
    # Where a change of the schema ends the transaction, an interrupted run leaves a table that nobody has used yet.
    op.execute("drop table if exists hg_mark")
    op.create_table(
        "hg_mark",
        sa.Column("job_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("order_key", ORDER_KEY, nullable=False, comment="nothing that may be claimable comes before it"),
        sa.Column("lease_until", sa.BigInteger, nullable=False, comment="no claim runs out before it"),
        **MYSQL,
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute(LOWER_MARK)
        for event in ("insert", "update"):
            op.execute(TRIGGER.format(event=event))
