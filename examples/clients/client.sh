#!/bin/sh
# A complete Headgate client in POSIX shell, with curl and jq. See README.md in this folder.
#
#   client.sh lock RESOURCE COMMAND...   run a command while holding an exclusive lock
#   client.sh work JOB COMMAND...        run a command on each chunk of a job, until nothing is left
set -u
: "${HEADGATE_SERVER:?}" "${HEADGATE_API_TOKEN:?}"
name=${HEADGATE_CLIENT:-$(id -un)@$(hostname)}
lease=${HEADGATE_LEASE:-30}       # seconds; renewed three times as often
patience=${HEADGATE_PATIENCE:-60} # seconds for which a request is retried while the service is away
REFUSED=75 LOST=76 UNAVAILABLE=69

folder=$(mktemp -d) || exit 1
running=
stopped=
trap 'rm -rf "$folder"' EXIT
# A client that is asked to stop stops its command, and then releases its lock or reports the interruption.
trap 'stopped=1; [ -z "$running" ] || kill -TERM "$running" 2>/dev/null' INT TERM HUP

say() { printf 'client.sh: %s\n' "$*" >&2; }

# ask METHOD PATH BODY [SECONDS]: sends a request, and again while the service is away, for SECONDS at most.
# Sets $status and $answer. All repeats carry one Idempotency-Key: they have no second effect.
ask() {
    until=$(($(date +%s) + ${4:-$patience}))
    key=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    tries=0
    while :; do
        tries=$((tries + 1))
        out=$(mktemp "$folder/answer.XXXXXX")
        # Each attempt has a deadline of its own: 10 seconds.
        status=$(curl -sS --max-time 10 -X "$1" "$HEADGATE_SERVER$2" -D "$out.head" -o "$out" -w '%{http_code}' \
            -H "Authorization: Bearer $HEADGATE_API_TOKEN" -H "Idempotency-Key: $key" \
            -H 'Content-Type: application/json' --data "$3" 2>"$out.error") || status=000
        answer=$(cat "$out" 2>/dev/null)
        pause=$(sed -n 's/^[Rr]etry-[Aa]fter: *\([0-9]*\).*/\1/p' "$out.head" 2>/dev/null)
        rm -f "$out" "$out.head" "$out.error"
        case $status in
            000 | 429 | 503) ;; # Unreachable, busy, or its store does not answer.
            409) # The first attempt, whose answer was lost, may still be running.
                [ "$(printf %s "$answer" | jq -r .type)" = urn:headgate:key-in-use ] || return 0 ;;
            *) return 0 ;;
        esac
        pause=${pause:-1}
        if [ $(($(date +%s) + pause)) -gt "$until" ]; then return $UNAVAILABLE; fi
        sleep "$pause"
    done
}

field() { printf %s "$answer" | jq -r "$1"; }

# keep PATH PID: renews a lease until the command has ended. A lease that is lost ends the command.
keep() {
    renewed=$(date +%s)
    while sleep "$(awk "BEGIN { print $lease / 3 }")" >/dev/null 2>&1; do
        asked=$(date +%s)
        left=$((renewed + ${lease%.*} - asked))
        if ask POST "$1" "{\"token\": $token, \"lease\": $lease}" "$left" && [ "$status" = 200 ]; then
            renewed=$asked # The lease counts from before the request: never later than the service counts.
        else
            : >"$folder/lost"
            say "the lease was lost: $(field .detail)"
            kill -TERM "$2" 2>/dev/null
            return
        fi
    done
}

# hold PATH COMMAND...: runs the command while its lease is renewed; returns its exit code, or 76 if the lease was lost.
hold() {
    path=$1
    shift
    rm -f "$folder/lost"
    "$@" &
    running=$!
    keep "$path" "$running" &
    keeper=$!
    wait "$running"
    code=$?
    while kill -0 "$running" 2>/dev/null; do # A signal ended the wait, not the command.
        wait "$running"
        code=$?
    done
    running=
    kill -KILL "$keeper" 2>/dev/null # Not TERM: a keeper that has just started still has our traps, and ignores it.
    wait "$keeper" 2>/dev/null
    if [ -e "$folder/lost" ]; then return $LOST; fi
    return "$code"
}

lock() {
    resource=$1
    shift
    body=$(jq -n --arg client "$name" --arg resource "$resource" --argjson lease "$lease" '$ARGS.named')
    ask POST /v1/locks "$body" || { say "the service does not answer"; exit $UNAVAILABLE; }
    case $status in
        201) ;;
        409) say "$(field .detail)"; exit $REFUSED ;;
        *) say "$status: $(field .detail)"; exit 2 ;;
    esac
    id=$(field '.locks[0].id')
    token=$(field '.locks[0].token')
    export HEADGATE_TOKEN="$token"
    hold "/v1/locks/$id/renew" "$@"
    code=$?
    [ "$code" = $LOST ] && [ -e "$folder/lost" ] && exit $LOST # It is not ours any more: nothing to release.
    ask DELETE "/v1/locks/$id?token=$token" '' || say "not released: the lease will expire"
    # A repeat finds nothing to release if the answer to the first attempt was lost.
    if [ "$status" = 409 ] && [ "$tries" = 1 ]; then say "$(field .detail)"; exit $LOST; fi
    exit "$code"
}

work() {
    job=$(jq -rn --arg job "$1" '$job | @uri')
    shift
    result=0
    while :; do
        body=$(jq -n --arg worker "$name" --argjson lease "$lease" '$ARGS.named')
        ask POST "/v1/jobs/$job/next" "$body" || { say "the service does not answer"; exit $UNAVAILABLE; }
        case $status in
            200) ;;
            204) exit $result ;; # Nothing left to do.
            *) say "$status: $(field .detail)"; exit 2 ;;
        esac
        dataid=$(field .dataid)
        token=$(field .token)
        chunk="/v1/jobs/$job/chunks/$(field '.dataid | @uri')"
        export HEADGATE_DATAID="$dataid" HEADGATE_TOKEN="$token"
        hold "$chunk/heartbeat" "$@"
        code=$?
        if [ -e "$folder/lost" ]; then result=1; continue; fi
        if [ -n "$stopped" ]; then # No failure: the chunk is claimable again at once.
            ask POST "$chunk/interrupt" "{\"token\": $token, \"message\": \"the worker was stopped\"}"
        elif [ "$code" = 0 ]; then
            ask POST "$chunk/success" "{\"token\": $token}"
        else
            result=1
            ask POST "$chunk/fail" "{\"token\": $token, \"message\": \"exit code $code\"}"
        fi
        case $? in 0) ;; *) say "$dataid: not reported, the service does not answer"; exit $UNAVAILABLE ;; esac
        if [ "$status" != 204 ]; then say "$dataid: $(field .detail)"; result=1; fi # Stale: somebody else has it.
        if [ -n "$stopped" ]; then exit 143; fi
    done
}

if [ $# -lt 3 ]; then say "usage: client.sh lock RESOURCE COMMAND... | work JOB COMMAND..."; exit 2; fi
case $1 in
    lock | work) "$@" ;;
    *) say "usage: client.sh lock RESOURCE COMMAND... | work JOB COMMAND..."; exit 2 ;;
esac
