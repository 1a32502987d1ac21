#!/bin/sh
# Shows the ledger: a pipeline of two steps over files, and a chunk that fails, is explained and made again.
set -u
. "$(dirname -- "$0")/../steps.sh"

mkdir raw clean report
for day in 01 02 03; do
    printf 'apples %s\npears 7\n' "$day" >"raw/2026-11-$day"
done
printf 'apples many\n' >raw/2026-11-02

cat >pipeline.toml <<'TOML'
[dataset.orders_raw]
uri = "raw"
[dataset.orders_clean]
uri = "clean"
[dataset.report]
uri = "report"
[job.clean]
inputs = ["orders_raw"]
outputs = ["orders_clean"]
max_attempts = 1
[job.sum]
inputs = ["orders_clean"]
outputs = ["report"]
TOML

cat >clean.sh <<'SH'
#!/bin/sh
# The chunk's name and where to read and write come from Headgate.
! grep -n '[^0-9a-z ]\|many' "$HEADGATE_INPUT_ORDERS_RAW_URI/$HEADGATE_DATAID" >&2 || exit 1
clean=$HEADGATE_OUTPUT_ORDERS_CLEAN_URI/$HEADGATE_DATAID
sort "$HEADGATE_INPUT_ORDERS_RAW_URI/$HEADGATE_DATAID" >"$clean.$HEADGATE_TOKEN" && mv "$clean.$HEADGATE_TOKEN" "$clean"
SH
cat >sum.sh <<'SH'
#!/bin/sh
# Safe to run again: each day has a file of its own, which is replaced as a whole.
report=$HEADGATE_OUTPUT_REPORT_URI/$HEADGATE_DATAID
awk '{ total += $2 } END { print ENVIRON["HEADGATE_DATAID"], total }' \
    "$HEADGATE_INPUT_ORDERS_CLEAN_URI/$HEADGATE_DATAID" >"$report.$HEADGATE_TOKEN" &&
    mv "$report.$HEADGATE_TOKEN" "$report"
SH
chmod +x clean.sh sum.sh

step "Say what is read and made"
expect 0 define pipeline.toml

step "Three days of data are there"
expect 0 data publish orders_raw 2026-11-01..2026-11-03

step "Two workers clean them; one day is bad"
expect 1 --quiet job run clean --loop --workers 2 -- ./clean.sh

step "The status of each chunk, and why one waits"
expect 0 data grid
expect 0 job explain clean 2026-11-02

step "The sum is made from what is ready"
expect 0 --quiet job run sum --loop -- ./sum.sh

step "The bad day is corrected and made again, with everything made from it"
printf 'apples 2\npears 7\n' >raw/2026-11-02
expect 0 job resubmit clean 2026-11-02 --reason "the raw data was corrected" --downstream
expect 0 --quiet job run clean --loop -- ./clean.sh
expect 0 --quiet job run sum --loop -- ./sum.sh
expect 0 data grid
cat report/*

step "What happened to that day"
expect 0 history --dataid 2026-11-02 --limit 6

end
