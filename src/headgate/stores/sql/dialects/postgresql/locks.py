"""Grants, releases and hand-overs on PostgreSQL, in one trip each. States, modes and events come from the tables."""

from __future__ import annotations

from functools import lru_cache

from headgate.core.locks.draft import TRIAL_SECONDS
from headgate.core.locks.model import Mode
from headgate.core.locks.rules import LockRules
from headgate.stores.sql.database.dialect import CHUNK, IS_CURRENT, OWNED
from headgate.stores.sql.database.moments import to_micro
from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.dialects.postgresql.news import LISTENED
from headgate.stores.sql.dialects.postgresql.session import EPOCH, NOW
from headgate.stores.sql.fast_paths import NAME, Routine, event_of, one_of, routine, source_of, target_of

#: The resource, if it is a chunk's and another process listens for news.
_CHUNK = f"case when {CHUNK.format('r.uri')} is not null then case when {LISTENED} then r.uri end end"
# One trip each. The rule is enforced on the resource's row, because a single statement sees all other rows as they were
# when it began: a NOT EXISTS over hg_lock would let two writers in.
GRANT = Statement(
    "Grant a resource that is free for this mode: resource, lock and history in one statement.",
    """with granted as (
         insert into hg_resource as r (rkey, uri, token, holders, mode, waiting, known)
         select :rkey, :uri, {token_floor} + 1, 1, :mode, 0, true where {is_current}
         on conflict (rkey) do update
           set token = greatest(r.token + 1, excluded.token), holders = r.holders + 1, mode = {joined_mode},
               known = true
           where r.waiting = 0 and {joins}
         returning r.token),
       held as (
         insert into hg_lock (id, rkey, client, mode, token, since, lease, lease_until, lock_delay, count,
                              request_id, owner, note, principal)
         select :id, :rkey, :client, :mode, token, {wall}, :lease, {now} + :lease, :lock_delay, 1,
                :request_id, :owner, :note, :principal from granted
         returning token, since),
       told as (
         insert into hg_history (at, noun, event, subject, lock_id, client, token, state_before, state_after, reason,
                                 principal)
         select since, 'lock', {grant_event}, substr(:id, 6, 16), :id, :client, token, {grant_source}, :mode, '',
                :principal
         from held)
       select token, since from held""",
)
RELEASE = Statement(
    "Release a live lock that is held once: lock, resource and history in one statement.",
    """with gone as (
         delete from hg_lock
         where id = :id and token = :token and count = 1 and (lease_until is null or lease_until > {now})
           and {is_current} and {owned} and {releasable}
         returning rkey, client, mode),
       freed as (
         update hg_resource r set holders = r.holders - 1 from gone where r.rkey = gone.rkey
         returning r.waiting, r.rkey, {chunk} as chunk),
       told as (
         insert into hg_history (at, noun, event, subject, lock_id, client, token, state_before, state_after, reason,
                                 principal)
         select {wall}, 'lock', {release_event}, substr(:id, 6, 16), :id, client, :token, mode, {release_target}, '',
                :principal
         from gone)
       select waiting, rkey, false, chunk from freed""".replace("{chunk}", _CHUNK),
)
ENQUEUE = Statement(
    "Join the end of the queue of a resource that is held in a conflicting mode, or has waiters.",
    """with busy as (
         update hg_resource r set waiting = r.waiting + 1
         where r.rkey = :rkey and (r.waiting > 0 or {is_blocked})
         returning 1),
       numbered as (
         insert into hg_ticket (request_id, client, owner, since, alive_until, channel, lock_id, lease,
                                lock_delay, note, principal)
         select :request_id, :client, :owner, {wall}, {now} + :alive, :channel, :lock_id, :lease, :lock_delay, :note,
                :principal
         from busy
         returning number),
       placed as (
         insert into hg_wait (rkey, ticket, mode) select :rkey, number, :mode from numbered)
       select number from numbered""",
)
#: Each statement of a function sees everything committed before it, so it can decide after locking the row.
HAND_OVER_TEXT = """
create or replace function {name}(a_id text, a_token bigint, a_principal text,
                                          out waiting int, out rkey bytea, out handed boolean, out chunk text)
returns setof record language plpgsql as $routine$
declare
  lost record;
  kept record;
  head record;
  moment bigint;
  given bigint;
begin
  if not {is_current} then return; end if;
  select l.rkey, l.client, l.mode into lost from hg_lock l
  where l.id = a_id and l.token = a_token and l.count = 1 and {owned}
    and {releasable};
  if not found then return; end if;
  select r.token, r.holders, r.waiting, r.uri into kept from hg_resource r where r.rkey = lost.rkey for update;
  moment := {now};
  delete from hg_lock l
  where l.id = a_id and l.token = a_token and l.count = 1 and (l.lease_until is null or l.lease_until > moment);
  if not found then return; end if;
  insert into hg_history (at, noun, event, subject, lock_id, client, token, state_before, state_after, reason,
                          principal)
  values (moment, 'lock', {release_event}, substr(a_id, 6, 16), a_id, lost.client, a_token, lost.mode,
          {release_target}, '', a_principal);
  handed := false;
  if kept.holders = 1 and kept.waiting > 0 then
    select w.mode, t.* into head from hg_wait w join hg_ticket t on t.number = w.ticket
    where w.rkey = lost.rkey and t.alive_until > moment order by w.ticket limit 1;
    handed := found and head.lock_id <> '' and {handable};
  end if;
  if handed then
    given := greatest(kept.token, (select f.value::bigint from hg_meta f where f.name = 'token_floor')) + 1;
    insert into hg_lock (id, rkey, client, mode, token, since, lease, lease_until, lock_delay, count, request_id,
                         owner, note, principal)
    values (head.lock_id, lost.rkey, head.client, head.mode, given, moment,
            head.lease, moment + least(coalesce(head.lease, {trial}), {trial}), head.lock_delay, 1,
            head.request_id, head.owner, head.note, head.principal);
    insert into hg_history (at, noun, event, subject, lock_id, client, token, state_before, state_after, reason,
                          principal)
    values (moment, 'lock', {hand_event}, substr(head.lock_id, 6, 16), head.lock_id, head.client, given,
            {hand_source}, head.mode, '', head.principal);
    delete from hg_wait w where w.rkey = lost.rkey and w.ticket = head.number;
    delete from hg_ticket t where t.number = head.number;
    update hg_resource r set token = given, mode = head.mode, waiting = kept.waiting - 1
    where r.rkey = lost.rkey;
    perform pg_notify(head.channel, head.number::text);
    handed := true;
    waiting := case when {joined} then kept.waiting - 1 else 0 end;
  else
    update hg_resource r set holders = kept.holders - 1 where r.rkey = lost.rkey;
    waiting := kept.waiting;
  end if;
  rkey := lost.rkey;
  chunk := {chunk};
  return next;
end $routine$"""


@lru_cache(maxsize=64)
def hand_over(rules: LockRules) -> tuple[Statement, Routine]:
    """Release a live lock that is held once, and grant the resource to the first waiter if it is free then."""
    fast = rules.fast
    text = HAND_OVER_TEXT.format(
        name=NAME,
        is_current=IS_CURRENT.format(EPOCH),
        owned=OWNED.format("a_principal"),
        now=NOW,
        trial=to_micro(TRIAL_SECONDS),
        release_event=event_of(fast.release),
        releasable=one_of("l.mode", fast.release),
        chunk=_CHUNK.replace("r.uri", "kept.uri"),
        release_target=target_of("lost.mode", fast.release),
        hand_event=event_of(fast.hand),
        hand_source=source_of(fast.hand),
        handable=one_of("head.mode", fast.hand),
        joined=one_of("head.mode", [mode for mode in Mode if any(rules.agrees(other, (mode,)) for other in Mode)]),
    )
    made = routine("hg_hand_over", text)
    return Statement(
        "Release a live lock that is held once, and grant the resource to the first waiter (see the function).",
        f"select waiting, rkey, handed, chunk from {made.name}(:id, :token, :principal)",
    ), made
