#!/bin/sh
# Shows what the queue does: a batch becomes jobs that go from state to state; one fails, is resumed, and all is reported.
set -u
. "$(dirname -- "$0")/../steps.sh"

cat >split.sh <<'SH'
#!/bin/sh
# One job for each object of the batch.
echo '{"jobs": [{"payload_url": "https://example.org/a.checkm"}, {"payload_url": "https://example.org/b.checkm"}]}'
SH
cat >fetch.sh <<'SH'
#!/bin/sh
# The second object cannot be fetched, until the network is fixed.
case $HEADGATE_ITEM in *2) [ -e mended ] || { echo "no route to example.org" >&2; exit 1; } ;; esac
SH
chmod +x split.sh fetch.sh

# daemons: everything that works on the queue, until it is asked to stop.
daemons() {
    set -- daemon --interval 0.2 --exec batch-pending=./split.sh --exec job-downloading=./fetch.sh
    for name in job-pending job-estimating job-provisioning job-processing job-recording job-notify \
        batch-reporting batch-update-reporting; do
        set -- "$@" --exec "$name=true"
    done
    "$headgate" --quiet "$@" 2>daemons.log &
    daemons=$!
}

# until_batch STATE: wait until the batch is in that state.
until_batch() {
    until "$headgate" --quiet ingest batches --state "$1" | grep -q bid; do
        kill -0 "$daemons" 2>/dev/null || { cat daemons.log; wrong=$((wrong + 1)); return; }
    done
}

step "Hand in a batch"
expect 0 ingest submit https://example.org/objects.checkm --profile demo --submitter me --type batch-manifest

step "Consumers move its jobs from state to state; one fails, and the batch is reported"
daemons
until_batch failed
expect 0 ingest batches
expect 0 ingest jobs

step "The network is mended, the job goes on where it failed, and the report is sent anew"
touch mended
expect 0 ingest resume jid0000000002 --reason "the network is mended"
until "$headgate" --quiet ingest job jid0000000002 | grep -q 'state: *\(completed\|cleaned\)'; do
    kill -0 "$daemons" 2>/dev/null || break
done
expect 0 ingest update-report bid0000000001
until_batch completed
kill "$daemons"
wait "$daemons" || wrong=$((wrong + 1))
expect 0 ingest batch bid0000000001

step "What happened to that job, and whether all is in order"
expect 0 history --item jid0000000002 --limit 20
expect 0 doctor

end
