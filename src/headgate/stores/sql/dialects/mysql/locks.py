"""Grants and releases on MariaDB and MySQL: one trip each, by routines generated from the tables."""

from __future__ import annotations

from functools import lru_cache

from headgate.core.locks.rules import LockRules
from headgate.stores.sql.database.dialect import CHUNK, OWNED
from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.dialects.mysql.ledger import EPOCH, NOW
from headgate.stores.sql.dialects.mysql.news import LISTENED
from headgate.stores.sql.fast_paths import (
    NAME,
    Routine,
    event_of,
    joined_mode,
    joins,
    one_of,
    routine,
    source_of,
    target_of,
)

LOOK_ROUTINE = routine(
    "hg_look",
    f"""
create procedure if not exists {NAME}(in a_write boolean)
begin
  if a_write then
    start transaction;
    select coalesce((select value = {EPOCH} from hg_meta where name = 'epoch' lock in share mode), 0), {NOW},
           {LISTENED};
  else
    start transaction read only;
    select coalesce((select value = {EPOCH} from hg_meta where name = 'epoch'), 0), {NOW}, false;
  end if;
end""",
)
BEGIN_WRITE, BEGIN_READ = f"call {LOOK_ROUTINE.name}(true)", f"call {LOOK_ROUTINE.name}(false)"
GRANT_TEXT = """
create procedure if not exists {name}(
  in a_rkey binary(32), in a_uri varchar(2048) character set utf8mb4, in a_mode varchar(9) character set utf8mb4,
  in a_id varchar(40) character set utf8mb4, in a_client varchar(255) character set utf8mb4, in a_lease bigint,
  in a_lock_delay bigint, in a_request varchar(200) character set utf8mb4,
  in a_owner varchar(255) character set utf8mb4, in a_note varchar(1000) character set utf8mb4,
  in a_principal varchar(255) character set utf8mb4)
grant_one: begin
  declare v_token, v_now, v_floor bigint;
  declare v_granted int;
  declare v_current boolean;
  declare exit handler for sqlexception begin rollback; resignal; end;
  start transaction;
  select e.value = {epoch}, coalesce(cast(f.value as signed), 0) into v_current, v_floor
  from hg_meta e left join hg_meta f on f.name = 'token_floor' where e.name = 'epoch' lock in share mode;
  if v_current is not true then rollback; select null, null; leave grant_one; end if;
  update hg_resource
  set token = last_insert_id(greatest(token, v_floor) + 1), mode = {joined_mode}, holders = holders + 1, known = 1
  where rkey = a_rkey and waiting = 0 and {joins};
  set v_granted = row_count();
  if v_granted = 0 then
    insert ignore into hg_resource (rkey, uri, token, holders, mode, waiting, known)
    values (a_rkey, a_uri, last_insert_id(v_floor + 1), 1, a_mode, 0, 1);
    set v_granted = row_count();
  end if;
  if v_granted = 0 then
    rollback;
    select null, null;
  else
    set v_token = last_insert_id(), v_now = {now};
    insert into hg_lock (id, rkey, client, mode, token, since, lease, lease_until, lock_delay, count,
                         request_id, owner, note, principal)
    values (a_id, a_rkey, a_client, a_mode, v_token, v_now, a_lease, v_now + a_lease, a_lock_delay, 1,
            a_request, a_owner, a_note, a_principal);
    insert into hg_history (at, noun, event, subject, lock_id, client, token, state_before, state_after, reason,
                            principal)
    values (v_now, 'lock', {grant_event}, substr(a_id, 6, 16), a_id, a_client, v_token, {grant_source}, a_mode, '',
            a_principal);
    commit;
    select v_token, v_now;
  end if;
end"""
RELEASE_TEXT = """
create procedure if not exists {name}(
  in a_id varchar(40) character set utf8mb4, in a_token bigint,
  in a_principal varchar(255) character set utf8mb4 collate utf8mb4_nopad_bin)
begin
  declare v_rkey binary(32);
  declare v_client varchar(255) character set utf8mb4;
  declare v_mode varchar(9) character set utf8mb4;
  declare v_waiting int;
  declare v_chunk varchar(2048) character set utf8mb4;
  declare v_now bigint default {now};
  declare exit handler for sqlexception begin rollback; resignal; end;
  start transaction;
  select rkey, client, mode into v_rkey, v_client, v_mode from hg_lock
  where id = a_id and token = a_token and count = 1 and (lease_until is null or lease_until > v_now)
    and {owned} and {releasable}
    and exists (select 1 from hg_meta where name = 'epoch' and value = {epoch}) for update;
  if v_rkey is null then
    rollback;
    select null, null, null;
  else
    delete from hg_lock where id = a_id;
    update hg_resource set holders = holders - 1 where rkey = v_rkey;
    select waiting, {chunk} into v_waiting, v_chunk from hg_resource where rkey = v_rkey;
    insert into hg_history (at, noun, event, subject, lock_id, client, token, state_before, state_after, reason,
                            principal)
    values (v_now, 'lock', {release_event}, substr(a_id, 6, 16), a_id, v_client, a_token, v_mode, {release_target},
            '', a_principal);
    commit;
    select v_waiting, v_rkey, v_chunk;
  end if;
end"""


@lru_cache(maxsize=64)
def grant(rules: LockRules) -> tuple[Statement, Routine]:
    """Grant a resource that is free for this mode."""
    fast = rules.fast
    words = {"grant_event": event_of(fast.grant), "grant_source": source_of(fast.grant)}
    mode = {"joins": joins(rules, "a_mode", "hg_resource"), "joined_mode": joined_mode("a_mode", "hg_resource")}
    made = routine("hg_grant", GRANT_TEXT.format(name=NAME, epoch=EPOCH, now=NOW, **words, **mode))
    return Statement(
        "Grant a resource that is free for this mode (see the routine).",
        f"""call {made.name}(:rkey, :uri, :mode, :id, :client, :lease, :lock_delay, :request_id, :owner, :note,
                             :principal)""",
    ), made


@lru_cache(maxsize=64)
def release(rules: LockRules) -> tuple[Statement, Routine]:
    """Release a live lock that is held once."""
    fast = rules.fast
    words = {
        "release_event": event_of(fast.release),
        "releasable": one_of("mode", fast.release),
        "chunk": f"if({LISTENED}, {CHUNK.format('uri')}, null)",
        "release_target": target_of("v_mode", fast.release),
    }
    owned = OWNED.format("a_principal")
    made = routine("hg_release", RELEASE_TEXT.format(name=NAME, epoch=EPOCH, now=NOW, owned=owned, **words))
    return Statement(
        "Release a live lock that is held once (see the routine).", f"call {made.name}(:id, :token, :principal)"
    ), made
