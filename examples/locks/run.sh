#!/bin/sh
# Shows what locks do, in a few seconds, on a throwaway SQLite store. Needs nothing but Headgate itself.
set -u
. "$(dirname -- "$0")/../steps.sh"
db=mysql://db1/core

# id_and_token CLIENT: the id and token of the lock that a client holds, as two words.
id_and_token() {
    "$headgate" --quiet lock list --client "$1" | awk 'NR == 2 { print $NF, "--token", $(NF - 1) }'
}

step "Two readers share the database"
expect 0 --quiet lock acquire "$db" --client report --mode shared
expect 0 --quiet lock acquire "$db" --client backup --mode shared --note nightly

step "A writer is refused at once, and told by whom and what it can do"
expect 75 lock acquire "$db" --client copy-core

step "A writer that waits gets its turn when the readers are done"
"$headgate" lock acquire "$db" --client copy-core --wait 60 >writer.txt 2>&1 &
writer=$!
# shellcheck disable=SC2046 # two words on purpose: the id and the token
{
    until "$headgate" lock list | grep -q waits; do :; done
    expect 0 lock list
    expect 0 lock release $(id_and_token report)
    expect 0 lock release $(id_and_token backup)
    wait "$writer" || wrong=$((wrong + 1))
    printf 'the writer, meanwhile:\n'
    sed 's/^/  /' writer.txt
    expect 0 lock release $(id_and_token copy-core)
}

step "A command runs while the lock is held, and is given its token"
# shellcheck disable=SC2016 # expanded by the inner shell
expect 0 lock run "$db" -- sh -c 'echo "copying, with token $HEADGATE_TOKEN"'

step "A holder is killed with -9: its command dies with it, and its lease ends by itself"
"$headgate" lock run --client doomed --lease 1 "$db" -- sleep 60 &
doomed=$!
until "$headgate" lock list | grep -q doomed; do :; done
kill -9 "$doomed"
wait "$doomed" 2>/dev/null
printf '$ kill -9 (headgate lock run --client doomed --lease 1 %s -- sleep 60)\n' "$db"
expect 0 --quiet lock acquire "$db" --client heir --wait 30

step "Who has what now"
expect 0 lock list
expect 0 status

step "What happened, newest first"
expect 0 history --limit 8

end
