# What the examples share: a throwaway SQLite store, steps that show themselves, and a verdict at the end.
# shellcheck shell=sh

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
headgate=${HEADGATE:-$root/.venv/bin/headgate}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
export HEADGATE_URL="sqlite:///$folder/headgate.db"
wrong=0

step() {
    printf '\n%s\n' "== $* =="
}

# headgate WORDS...: shows the command, runs it, shows what it says.
headgate() {
    printf '$ headgate'
    printf ' %s' "$@"
    printf '\n'
    "$headgate" "$@" 2>&1
}

# expect CODE WORDS...: the same, and the exit code must be CODE.
expect() {
    wanted=$1
    shift
    headgate "$@"
    got=$?
    printf '(exit code %s)\n' "$got"
    if [ "$got" -ne "$wanted" ]; then
        printf 'NOT AS IT SHOULD BE: exit code %s was expected\n' "$wanted"
        wrong=$((wrong + 1))
    fi
}

# end: the verdict.
end() {
    if [ "$wrong" -eq 0 ]; then
        printf '\nall well\n'
    else
        printf '\n%s steps did not do what they should\n' "$wrong"
        exit 1
    fi
}
