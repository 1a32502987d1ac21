#!/bin/sh
# How often each word is in an object. HEADGATE_DATAID says which one, as in ark_99999_fk4abc.v1.
set -eu
ark=$(printf '%s' "$HEADGATE_DATAID" | sed 's/^ark_\([^_]*\)_\(.*\)\.v[0-9]*$/ark:\/\1\/\2/')
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=${PYTHON:-@PYTHON@}
"$python" -m headgate ingest export "$ark" "$folder/object" --wait 30
# The names of files with text are in kinds.txt.
texts=$(while read -r kind; do find "$folder/object/producer" -name "$kind"; done <kinds.txt)
[ -n "$texts" ] || {
    echo "$ark has no file of a kind that kinds.txt lists: there is nothing to count" >&2
    exit 1
}
target=${HEADGATE_OUTPUT_HARBOUR_WORDS_URI#file:}
mkdir -p "$target"
# shellcheck disable=SC2086 # The names are ours, and without blanks.
cat $texts | tr -cs '[:alpha:]' '\n' | sort | uniq -c | sort -rn >"$folder/words"
mv "$folder/words" "$target/$HEADGATE_DATAID"
