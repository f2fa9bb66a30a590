#!/bin/sh
# fuzz.sh SECONDS "TARGETS" BUILD CFLAGS LIBS: runs each libFuzzer target for that long,
# from its corpus, under ASan and UBSan.  New inputs stay in BUILD/corpus.
set -eu
seconds=$1 targets=$2 build=$3 cflags=$4 libs=$5
command -v clang >/dev/null || { echo "fuzzing needs clang: apt-get install clang libclang-rt-14-dev" >&2; exit 1; }
mkdir -p "$build"
sources=$(find common broker ledger supervisor client -name '*.c' ! -name main.c | sort)
status=0
for target in $targets; do
	mkdir -p "$build/corpus/$target"
	for source in $sources tests/fuzz/fuzz_$target.c; do
		object=$build/$(echo "$source" | tr / _).o
		[ -n "$(find "$object" -newer "$source" 2>/dev/null)" ] ||
			clang -std=gnu11 -g -O1 -D_GNU_SOURCE -DCAISSON_ASAN=1 -DVERSION='"fuzz"' -DLIBEXECDIR='"/"' -I. \
				$cflags -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all \
				-c -o "$object" "$source"
	done
	rm -f "$build/all.a"
	for source in $sources; do
		echo "$build/$(echo "$source" | tr / _).o"
	done | xargs ar rcs "$build/all.a"
	clang -fsanitize=fuzzer,address,undefined -o "$build/fuzz_$target" \
		"$build/$(echo "tests/fuzz/fuzz_$target.c" | tr / _).o" "$build/all.a" $libs -lpthread
	echo "== $target, $seconds s"
	"$build/fuzz_$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
		-artifact_prefix="$build/$target-" "$build/corpus/$target" "tests/fuzz/corpus/$target" \
		>"$build/$target.log" 2>&1 || { status=1; tail -40 "$build/$target.log"; }
	grep -E 'number_of_executed_units|DONE|Done' "$build/$target.log" || true
done
exit $status
