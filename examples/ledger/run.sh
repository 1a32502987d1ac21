#!/bin/sh
# Shows what the ledger does: a pipeline of two steps over files, a chunk that fails, is explained and made again.
set -u
. "$(dirname -- "$0")/../steps.sh"

mkdir raw clean
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
sort "$HEADGATE_INPUT_ORDERS_RAW_URI/$HEADGATE_DATAID" >"$HEADGATE_OUTPUT_ORDERS_CLEAN_URI/$HEADGATE_DATAID"
SH
cat >sum.sh <<'SH'
#!/bin/sh
awk '{ total += $2 } END { print ENVIRON["HEADGATE_DATAID"], total }' \
    "$HEADGATE_INPUT_ORDERS_CLEAN_URI/$HEADGATE_DATAID" >>report
SH
chmod +x clean.sh sum.sh

step "Say what is read and made"
expect 0 define pipeline.toml

step "Three days of data are there"
expect 0 data publish orders_raw 2026-11-01..2026-11-03

step "Two workers clean them; one day is bad"
expect 1 --quiet job run clean --loop --workers 2 -- ./clean.sh

step "What became of each chunk, and why one waits"
expect 0 data grid
expect 0 job explain clean 2026-11-02

step "The sum is made of what is ready"
expect 0 --quiet job run sum --loop -- ./sum.sh

step "The bad day is mended and made again, with all that is made from it"
printf 'apples 2\npears 7\n' >raw/2026-11-02
expect 0 job resubmit clean 2026-11-02 --reason "the raw data was mended" --downstream
expect 0 --quiet job run clean --loop -- ./clean.sh
expect 0 --quiet job run sum --loop -- ./sum.sh
expect 0 data grid
sort report

step "What happened to that day"
expect 0 history --dataid 2026-11-02 --limit 6

end
