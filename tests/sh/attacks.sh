#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every row of configs/doc/attacks.md names tests, and every test that the page names exists.
page=${PAGE:-configs/doc/attacks.md} bad=0 n=0
list=$(mktemp) || exit 1
trap 'rm -f "$list"' EXIT
grep -o '`tests/[^`]*`' "$page" | tr -d '`' >"$list"
while IFS= read -r test; do
	file=${test%%: *} name=${test#*: }
	case $test in
	*X.c* | tests/sh/ | tests/sh/attacks.sh) continue ;; # not of the table
	tests/*/test_*.c:\ *) grep -qsx "TEST($name)" "$file" ;;
	tests/*/fuzz_*.c) [ -f "$test" ] ;;
	tests/sh/*.sh:\ *) grep -qsF "\"$name\"" "$file" ;;
	*) false ;;
	esac || { echo "$page: there is no $test"; bad=$((bad + 1)); }
	n=$((n + 1))
done <"$list"
rows=$(grep -c '^| [^*]' "$page") without=$(grep '^| [^*]' "$page" | grep -v '^| Attacker ' | grep -vc '`[^`]*` |$')
[ "$without" = 0 ] || { echo "$page: $without rows name no test"; bad=$((bad + 1)); }
[ "$n" -gt 100 ] && [ "$rows" -gt 40 ] || { echo "$page: $n tests in $rows rows are too few: was it read right?"; bad=$((bad + 1)); }
echo "$n tests in $((rows - 1)) rows"
[ $bad = 0 ] && { echo "1 passed, 0 failed, 0 skipped"; exit 0; }
echo "0 passed, 1 failed, 0 skipped"
exit 1
