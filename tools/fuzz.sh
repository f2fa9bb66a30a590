#!/bin/sh
# fuzz.sh SECONDS BUILD TARGET...: runs each libFuzzer target for that long, from its corpus.
# New inputs stay in BUILD/corpus, what failed in BUILD; the exit status says if anything did.
set -eu
seconds=$1 build=$2
shift 2
status=0
for target; do
	mkdir -p "$build/corpus/$target"
	"$build/fuzz_$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
		-print_final_stats=1 -artifact_prefix="$build/$target-" \
		"$build/corpus/$target" "tests/fuzz/corpus/$target" >"$build/$target.log" 2>&1 ||
		{ status=1; echo "FAIL $target"; tail -40 "$build/$target.log"; continue; }
	runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$build/$target.log")
	echo "ok   $target: $seconds s, $runs runs, nothing found"
done
exit $status
