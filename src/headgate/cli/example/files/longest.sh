#!/bin/sh
# The longest word of those that count.sh has found.
set -eu
source=${HEADGATE_INPUT_HARBOUR_WORDS_URI#file:}
target=${HEADGATE_OUTPUT_HARBOUR_LONGEST_URI#file:}
mkdir -p "$target"
awk 'length($2) > length(longest) { longest = $2 } END { print longest }' "$source/$HEADGATE_DATAID" \
    >"$target/.$HEADGATE_DATAID.$HEADGATE_TOKEN"
mv "$target/.$HEADGATE_DATAID.$HEADGATE_TOKEN" "$target/$HEADGATE_DATAID"
