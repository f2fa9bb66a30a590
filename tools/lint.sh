#!/bin/sh
# What a compiler does not say: house rules (docs/STYLE.md), cppcheck, man pages, scripts, links
# between pages.  A tool that is not installed is said and left out.
set -u
cd "$(dirname "$0")/.." || exit 1
status=0
folders="common supervisor worker broker ledger client gateway"

fault() {
	printf '%s\n' "$@"
	status=1
}

# rule TEXT PATTERN [grep's options and places]: nothing may match
rule() {
	text=$1 pattern=$2
	shift 2
	found=$(grep -rnE "$@" -e "$pattern") && fault "lint: $text" "$found"
}

# ---- house rules ----

rule "a function that cannot be used safely, or that waits" \
	'\b(strcpy|strcat|strncpy|strncat|sprintf|vsprintf|gets|atoi|atol|strtok|alloca|system|popen|mktemp|tmpnam|rand|u?sleep|nanosleep) ?\(' \
	--include='*.[ch]' $folders tools examples
# a program that is there to be killed sleeps for 1000 s
rule "a test that sleeps waits too long or not long enough" \
	'\bu?sleep\(([^1]|1([^0]|0([^0]|0[^0])))' \
	--include='*.[ch]' --include='*.py' tests
rule "fatal() stands in main.c only: what is below reports" '\bfatal\(' \
	--include='*.c' --exclude=main.c --exclude=log.c $folders
rule "the root is where includes start" '#include "(\.|[^"/]*")' --include='*.[ch]' $folders
rule "a note for later: do it, or write it where people look" '\b(TODO|FIXME|XXX)\b' \
	--include='*.[ch]' --include='*.def' --include='*.py' --include='*.sh' --include='*.md' --include='*.mjs' \
	--exclude=lint.sh $folders tests tools docs examples

# includes FOLDER "PLACES": what the files of a trust domain may include of ours
includes() {
	found=$(grep -nE '^#include "' "$1"/*.[ch] | grep -vE "\"($2)/[^/\"]*\"") &&
		fault "lint: $1/ may include $2 only" "$found"
}
includes common common
includes client 'client|client/lib|common'
includes client/lib 'client/lib|common'
includes ledger 'ledger|common'
includes gateway 'gateway|common'
includes broker 'broker|broker/authority|common'
includes broker/authority 'broker/authority|common'
includes worker 'worker|common'
includes worker/files 'worker/files|common'
includes worker/command 'worker/command|worker/sdk|worker|common'
includes worker/sdk worker/sdk
# plan, kernel interface, the table of the built-in provider: data that both sides need
includes supervisor 'supervisor|supervisor/doctor|common|worker|worker/files'
includes supervisor/doctor 'supervisor|supervisor/doctor|common|worker|worker/files'
found=$(grep -lE '^#include "supervisor/doctor/' supervisor/*.[ch] | grep -vx supervisor/main.c) &&
	fault "lint: nothing that serves a run needs supervisor/doctor/" "$found"
found=$(grep -nE '^#include "worker/' supervisor/*.[ch] supervisor/doctor/*.[ch] |
	grep -vE '"worker/(plan\.h|kernel\.h|files/tools\.def)"') &&
	fault "lint: supervisor/ may include of worker/ what describes a plan only" "$found"

# ---- pages ----

links() {
	# [text](target): targets that are no address, without their anchor
	sed -n 's/](\([^)]*\))/\n<\1>\n/gp' "$1" | sed -n 's/^<\(.*\)>$/\1/p' |
		grep -vE '^(https?:|#)' | sed 's/#.*//' | while read -r target; do
		[ -e "$(dirname "$1")/$target" ] || echo "$1: $target"
	done
}
found=$(git ls-files '*.md' 2>/dev/null | while read -r page; do links "$page"; done)
[ -z "$found" ] || fault "lint: links that lead nowhere" "$found"

if command -v mandoc >/dev/null; then
	mandoc -T lint -W warning docs/*.[1-8] || fault "lint: man pages"
else
	echo "lint: mandoc is not installed: man pages are not checked"
fi

# ---- scripts ----

for script in tools/*.sh .ci/run; do
	sh -n "$script" || fault "lint: $script"
done
if command -v shellcheck >/dev/null; then
	shellcheck -S warning tools/*.sh .ci/run || fault "lint: scripts"
else
	echo "lint: shellcheck is not installed: scripts are parsed only"
fi
for script in tools/*.py tests/*.py tests/*/*.py examples/*/*.py worker/sdk/*.py; do
	[ ! -e "$script" ] || /usr/bin/python3 -c \
		'import ast, sys; ast.parse(open(sys.argv[1], encoding="utf-8").read())' "$script" ||
		fault "lint: $script"
done

if command -v node >/dev/null; then
	for script in worker/sdk/*.mjs examples/*/*.mjs; do
		node --check "$script" || fault "lint: $script"
	done
else
	echo "lint: node is not installed: JavaScript is not parsed"
fi

# ---- the code ----

# It knows nothing of __attribute__((cleanup)), hence of no leak; gcc checks formats better.
if command -v cppcheck >/dev/null; then
	queue=/usr/include/bsd/sys/queue.h tree=/usr/include/bsd/sys/tree.h
	cppcheck --quiet --std=c11 --enable=warning,portability --inline-suppr --error-exitcode=1 \
		--suppress=memleak --suppress=invalidPrintfArgType_uint \
		--library=tools/cppcheck.cfg --include="$queue" --include="$tree" -I. -D_GNU_SOURCE \
		-D__x86_64__ '-DVERSION="0"' '-DLIBEXECDIR="/"' -j 2 \
		$folders tools examples || fault "lint: cppcheck"
else
	echo "lint: cppcheck is not installed: the code is not checked by it"
fi

[ $status -ne 0 ] || echo "lint: nothing to say"
exit $status
