#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs one test, or sums up all.
#	test.sh run FILE COMMAND...   runs COMMAND; FILE gets its last line, "N passed, N failed, N skipped", and after it what failed
#	test.sh sum FILE...           says once more what failed, and ends with "N passed, N failed"; a file that is not there is a
#	                              test that did not build
summary='^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$'

run() { # file, command...
	file=$1 name=$(basename "$1")
	shift
	log=$(mktemp) && trap 'rm -f "$log"' EXIT || exit 1
	start=$(date +%s)
	timeout "${TEST_S:-900}" "$@" >"$log" 2>&1
	status=$?
	sum=$(tail -n 1 "$log" | grep -E "$summary")
	if [ -z "$sum" ] || { [ $status != 0 ] && echo "$sum" | grep -q ' 0 failed'; }; then
		said="$(tail -n 30 "$log")
$name: ended with status $status and no summary"
		sum="0 passed, 1 failed, 0 skipped"
	elif [ $status = 0 ]; then
		said=$({ grep -E '^skip: ' "$log" | sort | uniq -c; grep -E '^ *[0-9.]+ s  ' "$log"; } | sed "s/^ */$name: /")
	else
		said=$(sed 's/^/	/' "$log")
	fi
	printf '%s\n' ${said:+"$said"} "$name: $sum, $(($(date +%s) - start)) s"
	mkdir -p "$(dirname "$file")" && echo "$sum" >"$file" && grep -hE '^(FAILED |[^ ]+: not so: |tests/[^ ]+:[0-9]+: )' "$log" |
		cut -c 1-200 | head -n 20 >>"$file"
	return 0
}

sum() { # file...
	good=0 bad=0 skipped=0
	for file in "$@"; do
		if ! read -r g _ b _ s _ 2>/dev/null <"$file"; then
			echo "$(basename "$file"): did not build"
			g=0 b=1 s=0
		elif [ "$b" != 0 ]; then
			sed "1s/^/$(basename "$file"): /; 2,\$s/^/	/" "$file"
		fi
		good=$((good + g)) bad=$((bad + b)) skipped=$((skipped + s))
	done
	[ $skipped = 0 ] || echo "$skipped skipped"
	echo "$good passed, $bad failed"
	[ $bad = 0 ]
}

"$@"
