"""Every statement about locks that is the same on all databases, each with its sentence."""

from __future__ import annotations

from headgate.stores.sql.database.sql_text import Statement
from headgate.stores.sql.fast_paths import delay_after

_LOCK_COLUMNS = """l.id, r.uri, l.client, l.mode, l.token, l.since, l.lease, l.lease_until - {now}, l.count,
                   l.owner, l.note, l.request_id, l.principal"""


LOCK_RESOURCES = Statement(
    "Lock the rows of these resources, in order, so that nobody else decides about them meanwhile.",
    """select rkey, uri, token, holders, mode, waiting, known, {wall}, {token_floor} from hg_resource
       where rkey in (:keys*) order by rkey {for_update}""",
)
ADD_RESOURCE = Statement(
    "Create a resource's row, if there is none.",
    """{insert_once} hg_resource (rkey, uri, token, holders, mode, waiting, known)
       values (:rkey, :uri, {token_floor}, 0, {no_mode}, 0, :known) {or_leave}""",
)
NAME_RESOURCE = Statement("Restore the name of a resource.", "update hg_resource set uri = :uri where rkey = :rkey")
READ_LOCKS = Statement(
    "The locks on these resources, with the remaining time of their leases; a lock-delay keeps a dead one in place.",
    f"select {_LOCK_COLUMNS}, l.lease_until + {delay_after('l.')} - {{now}}"
    " from hg_lock l join hg_resource r on r.rkey = l.rkey where l.rkey in (:keys*) order by l.token",
)
READ_QUEUE = Statement(
    "The positions in the queues of these resources, and how long their waiters are known to live.",
    "select w.ticket, r.uri, t.client, w.mode, t.since, t.owner, t.alive_until - {now}, t.channel, t.lock_id, t.lease,"
    " t.principal, t.request_id"
    " from hg_wait w join hg_ticket t on t.number = w.ticket join hg_resource r on r.rkey = w.rkey"
    " where w.rkey in (:keys*) order by w.ticket",
)
READ_LOCK = Statement(
    "One lock, by its id.",
    f"select {_LOCK_COLUMNS} from hg_lock l join hg_resource r on r.rkey = l.rkey where l.id = :id",
)
CHECK_LOCK = Statement(
    "One lock, by its id, and whether the store follows the answering server.",
    f"select {_LOCK_COLUMNS}, {{is_current}} from hg_lock l join hg_resource r on r.rkey = l.rkey where l.id = :id",
)
READ_EXPIRED = Statement(
    "Locks after an id whose lease, and lock-delay after it, have expired. In the order of the table: no sorting.",
    f"""select l.id, l.rkey, r.uri, r.waiting from hg_lock l join hg_resource r on r.rkey = l.rkey
        where l.id > :after and l.lease_until <= {{now}} and l.lease_until + {delay_after("l.")} <= {{now}}
        order by l.id limit :limit""",
)
TAKE_QUIET = Statement(
    "Lock the rows of those resources that have no waiters, and that are not locked by others.",
    "select rkey, holders from hg_resource where rkey in (:keys*) and waiting = 0 order by rkey {skip_locked}",
)
TAKE_EXPIRED = Statement(
    "Lock those of these locks that have expired, except those being renewed or released at this moment.",
    f"""select id, rkey from hg_lock
        where id in (:ids*) and lease_until <= {{now}} and lease_until + {delay_after()} <= {{now}} {{skip_locked}}""",
)
RECORD_EXPIRED = Statement(
    "Record the expiry of these locks, with their state after it.",
    """insert into hg_history (at, noun, event, subject, lock_id, client, token, state_before, state_after, reason,
                               principal)
       select {wall}, 'lock', :event, substr(id, 6, 16), id, client, token, mode, :after, :reason, principal
       from hg_lock
       where id in (:ids*) and mode in (:modes*)""",
)
COUNT_HOLDERS = Statement(
    "Number and mode of the locks on these resources, if there are any.",
    "select rkey, count(*), min(mode) from hg_lock where rkey in (:keys*) group by rkey",
)
READ_DEAD_WAITERS = Statement(
    "Resources with waiters whose last sign of life is too old.",
    """select distinct r.uri from hg_ticket t join hg_wait w on w.ticket = t.number
       join hg_resource r on r.rkey = w.rkey where t.alive_until <= {now} limit :limit""",
)
WRITE_LOCK = Statement(
    "Write a grant.",
    """insert into hg_lock (id, rkey, client, mode, token, since, lease, lease_until, lock_delay, count,
                            request_id, owner, note, principal)
       values (:id, :rkey, :client, :mode, :token, :since, :lease, {now} + :lease, :lock_delay, 1,
               :request_id, :owner, :note, :principal)""",
)
HAND_LOCK = Statement(
    "Write a provisional grant for a waiter, until it accepts it.",
    """insert into hg_lock (id, rkey, client, mode, token, since, lease, lease_until, lock_delay, count,
                            request_id, owner, note, principal)
       select t.lock_id, :rkey, t.client, :mode, :token, :since, t.lease, {now} + :trial, t.lock_delay, 1,
              t.request_id, t.owner, t.note, t.principal from hg_ticket t where t.number = :ticket""",
)
CHANGE_LOCKS = Statement(
    "Change the mode, count, request or owner of held locks, with new tokens of their resources, whose rows are not "
    "written yet: the first new one, the second, and so on; 0: none.",
    """update hg_lock set mode = :mode, count = count + :more, request_id = :request_id, principal = :owner,
         token = case when :given = 0 then token else :given + (
           select case when r.token < :floor then :floor else r.token end from hg_resource r
           where r.rkey = hg_lock.rkey) end
       where id in (:ids*)""",
)
LENGTHEN_LOCKS = Statement(
    "Renew leases with this length; none: the locks are persistent.",
    "update hg_lock set lease = :lease, lease_until = {now} + :lease where id in (:ids*)",
)
CONFIRM_LOCK = Statement(
    "Accept a provisional grant: its full lease begins, or it becomes persistent.",
    "update hg_lock set lease_until = {now} + lease where id = :id and token = :token and lease_until > {now}",
)
CONFIRM_LOCKS = Statement(
    "The same for all locks of a grant, alive when their resources' rows were locked: nobody has ended them since.",
    "update hg_lock set lease_until = {now} + lease where id in (:ids*)",
)
DELETE_LOCKS = Statement(
    "Remove locks, whose resources' rows are locked.",
    "delete from hg_lock where id in (:ids*)",
)
RENEW_LOCK = Statement(
    "Renew a lease, unless it has expired.",
    """update hg_lock set lease = coalesce(:lease, lease), lease_until = {now} + coalesce(:lease, lease)
       where id = :id and token = :token and lease_until > {now} and {owned}""",
)
WRITE_RESOURCES = Statement(
    "Update the rows of resources from their locks and queues, with the number of new tokens on each.",
    """update hg_resource set holders = :holders, mode = :mode, waiting = :waiting, known = :known,
         token = case when token < :floor then :floor else token end + :given
       where rkey in (:keys*)""",
)
WRITE_HISTORY = Statement(
    "Record an event in the history.",
    """insert into hg_history (at, noun, event, subject, lock_id, client, token, state_before, state_after, reason,
                               principal)
       values ({wall}, 'lock', :event, substr(:lock_id, 6, 16), :lock_id, :client, :token, :before, :after, :reason,
               :principal)""",
)
READ_END = Statement(
    "How a lock ended, if the history records it: newest first.",
    """select event, token, client, reason, at from hg_history
       where subject = substr(:lock_id, 6, 16) and lock_id = :lock_id order by at desc, id desc limit 5""",
)
READ_REFUSALS = Statement(
    "On which of these resources a client was refused within this minute, and the entries that record it.",
    "select rkey, history_id from hg_refusal where rkey in (:keys*) and client = :client and minute = {minute}",
)
COUNT_REFUSALS = Statement(
    "Count one more refusal within this minute.",
    "update hg_history set count = coalesce(count, 1) + 1 where id in (:ids*)",
)
WRITE_REFUSALS = Statement(
    "The first refusals within this minute, recorded by the history's newest entries.",
    """{insert_once} hg_refusal (rkey, client, minute, history_id)
       values (:rkey, :client, {minute},
               (select max(id) from hg_history where subject = substr(:id, 6, 16) and lock_id = :id
                and event = :event)) {or_leave}""",
)
WRITE_TICKET = Statement(
    "Take a number.",
    """insert into hg_ticket (request_id, client, owner, since, alive_until, channel, lock_id, lease, lock_delay, note,
                              principal)
       values (:request_id, :client, :owner, {wall}, {now} + :alive, :channel, :lock_id, :lease, :lock_delay, :note,
               :principal)""",
)
READ_NUMBER = Statement("The assigned number.", "select max(number) from hg_ticket where request_id = :request_id")
TAKE_NUMBER_AGAIN = Statement(
    "Reclaim a number that was voided while its process was stopped.",
    """{insert_once} hg_ticket (number, request_id, client, owner, since, alive_until, channel, lock_id, lease,
                                lock_delay, note, principal)
       values (:ticket, :request_id, :client, :owner, {wall}, {now} + :alive, :channel, :lock_id, :lease,
               :lock_delay, :note, :principal) {or_leave}""",
)
READ_TICKETS = Statement(
    "The numbers that a request has taken.", "select number from hg_ticket where request_id = :request_id"
)
WRITE_PLACE = Statement(
    "Take the last position in a resource's queue.",
    "insert into hg_wait (rkey, ticket, mode) values (:rkey, :ticket, :mode)",
)
TOUCH_TICKETS = Statement(
    "Record a sign of life of these waiters.",
    "update hg_ticket set alive_until = {now} + :alive where number in (:tickets*)",
)
TAKE_TICKETS = Statement(
    "Lock these tickets, so that a transaction that removes the last position of one detects that.",
    "select number from hg_ticket where number in (:tickets*) order by number {for_update}",
)
DELETE_PLACES = Statement(
    "Leave the queues of these resources.",
    "delete from hg_wait where ticket in (:tickets*) and rkey in (:keys*)",
)
DELETE_TICKETS = Statement(
    "Void numbers without a position in any queue.",
    """delete from hg_ticket where number in (:tickets*)
       and not exists (select 1 from hg_wait w where w.ticket = hg_ticket.number)""",
)
READ_WAITS_FOR = Statement(
    "Pairs of waiting and holding clients.",
    """select t.client, l.client from hg_wait w join hg_ticket t on t.number = w.ticket
       join hg_lock l on l.rkey = w.rkey where t.alive_until > {now}""",
)
WRITE_CLIENT = Statement(
    "Register a client, unless it is registered.",
    "{insert_once} hg_client (name, since) values (:name, {wall}) {or_leave}",
)
READ_CLIENTS = Statement("Registered clients.", "select name, since from hg_client order by name")
READ_CLIENT = Statement("One client.", "select since from hg_client where name = :name")
DELETE_CLIENT = Statement("Remove a client.", "delete from hg_client where name = :name")
COUNT_CLIENT_LOCKS = Statement(
    "Number of live locks of a client.",
    "select count(*) from hg_lock where client = :name and (lease_until is null or lease_until > {now})",
)
READ_RESOURCES = Statement("Known resources.", "select uri from hg_resource where known = :known order by rkey")
