#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds each tests/.../fuzz_NAME.c with libFuzzer and AddressSanitizer and runs it for FUZZ_S seconds. It makes the seeds.
# FUZZ_ONLY="fuzz_image fuzz_hint" runs only these.
b=${B_FUZZ:-build-fuzz} bad=0
for f in tests/*/fuzz_*.c tests/*/*/fuzz_*.c; do
	[ -f "$f" ] || continue
	name=$(basename "$f" .c)
	case " ${FUZZ_ONLY:-$name} " in *" $name "*) ;; *) continue ;; esac
	$MAKE --no-print-directory -s -j"$(nproc)" FUZZ=1 CC=clang B="$b" "$b/tests/$name" "$b/tests/seeds" || exit 1
	mkdir -p "$b/corpus/$name"
	"$b/tests/seeds" "$name" "$b/corpus/$name" || exit 1
	echo "fuzz $name: ${FUZZ_S:-60} s"
	"$b/tests/$name" -max_total_time="${FUZZ_S:-60}" -timeout=10 -rss_limit_mb=4096 -print_final_stats=1 \
		-artifact_prefix="$b/$name-" "$b/corpus/$name" >"$b/$name.log" 2>&1 || {
		bad=1
		tail -n 40 "$b/$name.log"
	}
	grep -E 'number_of_executed_units|new_units_added' "$b/$name.log"
done
[ $bad = 0 ] && echo "fuzz: clean"
exit $bad
