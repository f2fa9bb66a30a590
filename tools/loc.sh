#!/bin/sh
# Lines of C per trust domain, tests and blank lines left out; what may do most stands first.
set -eu
cd "$(dirname "$0")/.."
count() {
	cat "$@" 2>/dev/null | grep -cv '^[[:space:]]*$' || true
}
printf '%-20s %6s  %s\n' domain lines 'what it may do'
row() {
	printf '%-20s %6s  %s\n' "$1" "$(count $2)" "$3"
}
row supervisor 'supervisor/*.[ch] supervisor/*.def' 'open, spawn, confine, kill; reads nothing untrusted'
row supervisor/doctor 'supervisor/doctor/*.[ch] supervisor/doctor/*.def' '--doctor: what this machine gives; no part of a run'
row worker 'worker/*.[ch] worker/*.def' 'the launcher and pid 1 of a chamber'
row broker 'broker/*.[ch] broker/*.def' 'decides; appends to the journal'
row broker/authority 'broker/authority/*.[ch]' 'pure: the decision itself'
row ledger 'ledger/*.[ch] ledger/*.def' 'reads the journal; keeps index and head'
row worker/files 'worker/files/*.[ch] worker/files/*.def' 'one directory'
row client 'client/*.[ch] client/*.def' 'the terminal'
row common 'common/*.[ch] common/*.def' 'linked into all; knows no role'
row worker/sdk 'worker/sdk/*.[ch]' 'inside the chamber, untrusted'
