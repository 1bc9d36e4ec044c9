#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints what configs/boards says of a board: `board.sh BOARD KEY` the value of KEY in its section [build], its own or that of the
# board that it is `like`; `board.sh` the boards' names. Fails with a message if there is no such board, or no such key.
d=configs/boards
names=$(for f in $d/*.conf; do basename "$f" .conf; done | tr '\n' ' ')
[ $# = 2 ] || { echo "$names"; exit 0; }
board=$1
# A board's file may say which one it is like, and that one, too; no chain of them is longer than the list.
for _ in $names; do
	case $board in */* | "") break ;; esac
	[ -f "$d/$board.conf" ] || break
	value=$(awk -v key="$2" '/^\[/ { build = $0 == "[build]" } build && /=/ { k = $0; sub(/=.*/, "", k); gsub(/[ \t]/, "", k); if (k != key) next; sub(/^[^=]*=[ \t]*/, ""); sub(/[ \t]*[;#].*/, ""); print; exit }' "$d/$board.conf")
	[ -z "$value" ] || { echo "$value"; exit 0; }
	board=$(awk '/^\[/ { exit } /^[ \t]*like[ \t]*=/ { sub(/^[^=]*=[ \t]*/, ""); sub(/[ \t]*[;#].*/, ""); print; exit }' "$d/$board.conf")
done
[ -f "$d/$1.conf" ] || { echo "make: there is no board '$1': BOARD is one of $names" >&2; exit 1; }
echo "make: $d/$1.conf has no '$2' in [build], and neither has a board that it is like" >&2
exit 1
