#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs test binaries one after another and sums their last lines. Usage: test.sh COMMAND... Ends with "N passed, N failed".
good=0 bad=0 skipped=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for t in "$@"; do
	start=$(date +%s)
	timeout "${TEST_S:-900}" sh -c "exec $t" >"$log" 2>&1
	status=$?
	sum=$(tail -n 1 "$log" | grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$')
	name=$(echo "$t" | sed 's/^sh //; s/ .*//; s|.*/||; s/^test_//; s/\.sh$//')
	if [ -z "$sum" ] || { [ $status != 0 ] && echo "$sum" | grep -q ' 0 failed'; }; then
		tail -n 30 "$log"
		echo "$name: ended with status $status and no summary: $(tail -n 1 "$log")"
		bad=$((bad + 1))
		continue
	fi
	[ $status = 0 ] && grep -E '^skip: ' "$log" | sort | uniq -c | sed "s/^ */$name: /" || sed "s/^/	/" "$log"
	echo "$name: $sum, $(($(date +%s) - start)) s"
	set -- $sum
	good=$((good + $1)) bad=$((bad + $3)) skipped=$((skipped + $5))
done
[ $skipped = 0 ] || echo "$skipped skipped"
echo "$good passed, $bad failed"
[ $bad = 0 ]
