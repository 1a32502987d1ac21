#!/bin/sh
# Ingests a small collection from end to end, in a few seconds: files from a web server on loopback, a throwaway SQLite
# store, an OCFL storage root in a temporary folder. Needs Headgate with its extra `ingest`, and its Python.
set -u

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
. "$here/../steps.sh"
python=$(dirname -- "$headgate")/python
server= daemon=
trap 'kill $server $daemon 2>/dev/null; wait 2>/dev/null; rm -rf "$folder"' EXIT
cp -R "$here/collection" origin
export HEADGATE_SPACE_THRESHOLD=0

# What follows needs what was before, so the first failure ends it.
fail() {
    printf 'NOT AS IT SHOULD BE: %s\n' "$*"
    exit 1
}

# until COMMAND...: again and again, for a minute at most.
until_true() {
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ "$tries" -lt 300 ] || fail "$* is not so after a minute"
        sleep 0.2
    done
}

# row NAME FOLDER: a row of an object manifest, with the file's digest.
row() {
    printf 'http://127.0.0.1:%s/%s/%s | sha-256 | %s |  |  | %s\n' "$port" "$2" "$1" \
        "$(sha256sum "origin/$2/$1" | cut -d' ' -f1)" "$1"
}

# manifest KIND: rows from standard input become a manifest.
manifest() {
    printf '#%%checkm_0.7\n#%%profile | http://uc3.cdlib.org/registry/ingest/manifest/%s\n' "$1"
    cat
    printf '#%%eof\n'
}

step "A web server with two objects: a book of two files, a map"
"$python" -u -m http.server 0 --bind 127.0.0.1 --directory origin >server.log 2>&1 &
server=$!
until_true grep -q "port [0-9]" server.log
port=$(sed -n 's/.* port \([0-9]*\).*/\1/p' server.log | head -n 1)
{ row chapter-1.txt book; row mrt-erc.txt book; } | manifest mrt-ingest-manifest >origin/book.checkm
row coast.svg map | manifest mrt-ingest-manifest >origin/map.checkm
manifest mrt-batch-manifest >origin/all.checkm <<END
http://127.0.0.1:$port/book.checkm |  |  |  |  | book.checkm |  | book-1
http://127.0.0.1:$port/map.checkm |  |  |  |  | map.checkm |  | map-1 | A surveyor | A coast | 1900
END
cat origin/all.checkm

step "A profile says how what is handed in is taken care of"
mkdir headgate-profiles
cat >headgate-profiles/demo.toml <<END
collection = "demo"
owner = "library"
[sources]
schemes = ["http"]
ports = [$port]
private_addresses = true
END
headgate ingest profiles || fail "the profile is wrong"

step "The daemons do every step; the batch is handed in"
"$headgate" daemon -q --interval 0.5 &
daemon=$!
headgate ingest submit "http://127.0.0.1:$port/all.checkm" --profile demo --submitter you --type batch-manifest
is_completed() { "$headgate" ingest batch 1 --json | grep -q '"state": "completed"'; }
until_true is_completed
headgate ingest batch 1

step "What is stored, and whether every byte is right"
headgate ingest objects
ark=$("$headgate" ingest objects --local-id book-1 --json | sed 's/.*"ark": "\([^"]*\)".*/\1/')
headgate ingest export "$ark" book || fail "it cannot be exported"
cmp origin/book/chapter-1.txt book/producer/chapter-1.txt || fail "another file came back"
headgate ingest verify || fail "something is damaged"

step "The ledger knows them too: pipelines go on from here"
headgate data list --dataset demo || fail "the ledger does not know them"
end
