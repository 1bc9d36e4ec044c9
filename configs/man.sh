#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Manual pages but those of libhone: of hone and its commands from their tables, honed(8) with the words of honed --help,
# honed.conf(5) from configs/honed.conf. Usage: man.sh BUILD VERSION COMMAND... makes them in BUILD/man;
# man.sh BUILD reads them all.
set -e

options() { # of --help, as paragraphs
	"$b/honed" --help | sed -n 's/^  \(--[a-z]*\)\( [A-Z]*\)\{0,1\}  *\(.*\)/.TP\n.B \1\2\n\3/p' | sed 's/-/\\-/g'
}

make_pages() { # BUILD VERSION COMMAND...
	b=$1 version=$2
	shift 2
	rm -rf "$b/man" && mkdir -p "$b/man"
	"$b/hone" --man >"$b/man/hone.1"
	for c in "$@"; do "$b/hone" --man "$c" >"$b/man/hone-$c.1"; done
	awk -v version="$version" -f configs/man5.awk configs/honed.conf >"$b/man/honed.conf.5"
	options >"$b/man/options"
	"$b/honed" --help | sed -n 's/^usage: //p; s/^       //p' | sed 's/-/\\-/g' >"$b/man/usage"
	sed -e "s/@VERSION@/$version/" -e "/@OPTIONS@/{r $b/man/options
d}" -e "/@USAGE@/{r $b/man/usage
d}" configs/man/honed.8 >"$b/man/honed.8"
	rm "$b/man/options" "$b/man/usage"
	for u in configs/systemd/*.service configs/systemd/*.socket; do
		u=$(basename "$u")
		echo ".so man8/honed.8" >"$b/man/$u.8"
	done
}

good=0 bad=0
check() { # what, what was said
	if [ -z "$2" ]; then
		good=$((good + 1))
	else
		bad=$((bad + 1))
		printf 'man: %s:\n%s\n' "$1" "$2" | sed '2,$s/^/	/'
	fi
}

# What a configuration could have said where it said this.
possible() { # text
	f=$(mktemp)
	printf "$1" >"$f"
	"$b/honed" --check --config "$f" 2>&1 | sed -n 's/.*there are: //p' | tr -d '[]' | sed 's/, /\n/g'
	rm "$f"
}

undocumented() { # keys of honed.conf that its page has not, and sections
	possible '[x]\n' | while read -r section; do
		grep -qF ".SH \"[$section]\"" "$m/honed.conf.5" || echo "[$section]"
		possible "[$section]\nno_such_key = 1\n" | while read -r key; do
			sed -n "/^.SH \"\[$section\]/,/^.SH/p" "$m/honed.conf.5" | grep -q "^\.B $key = " || echo "[$section] $key"
		done
	done
}

test_pages() { # BUILD
	b=$1 m=$1/man
	check "honed.conf(5) lacks" "$(undocumented)"
	check "no sections were found" "$([ "$(possible '[x]\n' | wc -l)" -ge 7 ] || echo here)"
	check "a unit has no page" "$(for u in configs/systemd/*.service configs/systemd/*.socket; do [ -s "$m/$(basename "$u").8" ] || echo "$u"; done)"
	check "an option of honed is not in honed(8)" "$("$b/honed" --help | grep -oE '^  --[a-z]+' | sed 's/-/\\-/g; s/^  //' | while read -r o; do
		grep -qF -- "$o" "$m/honed.8" || echo "$o"; done)"
	for said in "$b/man3" "$m"; do
		if command -v groff >/dev/null; then
			check "groff warns of $said" "$(grep -L '^\.so ' "$said"/*.[1358] | while read -r p; do groff -man -Tutf8 -ww -z "$p" 2>&1; done | head -20)"
		else
			echo "skip: man: no groff"
		fi
	done
	echo "$good passed, $bad failed, 0 skipped"
	[ $bad = 0 ]
}

if [ $# = 1 ]; then test_pages "$1"; else make_pages "$@"; fi
