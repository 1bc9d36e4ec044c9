#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Manual pages but those of libhone: of hone and its commands from their tables, honed(8) with the words of honed --help,
# honed.conf(5) from configs/honed.conf. Usage: man.sh BUILD VERSION COMMAND... makes them in BUILD/man;
# man.sh BUILD reads them all.
set -e
unset COLUMNS # a help is as wide as it says

options() { # of --help, as paragraphs; a line that goes on is indented by 18
	"$b/honed" --help | sed -n 's/^  \(--[a-z]*\)\( [A-Z]*\)\{0,1\}  *\(.*\)/.TP\n.B \1\2\n\3/p; s/^ \{18\}\([^ ]\)/\1/p' | sed 's/-/\\-/g'
}

usage() { # PROGRAM: its first paragraph, line by line
	printf '.nf\n'
	"$1" --help | sed -n '1,/^$/{s/^usage: //p; s/^       //p}' | sed 's/-/\\-/g'
	printf '.fi\n'
}

fleet_commands() { # BUILD
	"$1/hone-fleet" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'
}

sync_page() { # BUILD VERSION: of hone-sync --help, where a line that goes on is indented by 18, too
	printf '.TH HONE-SYNC 8 "" "hone %s"\n.SH NAME\nhone\\-sync \\- shares what a board found with its fleet\n.SH SYNOPSIS\n' "$2"
	usage "$1/hone-sync"
	printf '.SH DESCRIPTION\n'
	"$1/hone-sync" --help | sed -n '/^$/,/^  --/p' | grep -v '^  --' | sed 's/-/\\-/g'
	printf '.SH OPTIONS\n'
	"$1/hone-sync" --help | sed -n 's/^  \(-[^ ]*\( -[a-z]\)\{0,1\}\( [A-Z]*\)\{0,1\}\)  *\(.*\)/.TP\n.B \1\n\4/p; s/^ \{18\}\([^ ]\)/\1/p' | sed 's/-/\\-/g'
	cat configs/man/hone-sync.8
}

make_pages() { # BUILD VERSION COMMAND...
	b=$1 version=$2
	shift 2
	rm -rf "$b/man" && mkdir -p "$b/man"
	"$b/hone" --man >"$b/man/hone.1"
	for c in "$@"; do "$b/hone" --man "$c" >"$b/man/hone-$c.1"; done
	"$b/hone-fleet" --man >"$b/man/hone-fleet.1"
	for c in $(fleet_commands "$b"); do "$b/hone-fleet" --man "$c" >"$b/man/hone-fleet-$c.1"; done
	sync_page "$b" "$version" >"$b/man/hone-sync.8"
	awk -v version="$version" -f tools/build/man5.awk configs/honed.conf >"$b/man/honed.conf.5"
	options >"$b/man/options"
	usage "$b/honed" >"$b/man/usage"
	sed -e "s/@VERSION@/$version/" -e "/@OPTIONS@/{r $b/man/options
d}" -e "/@USAGE@/{r $b/man/usage
d}" configs/man/honed.8 >"$b/man/honed.8"
	rm "$b/man/options" "$b/man/usage"
	sed "s/@VERSION@/$version/" configs/man/hone-worker.8 >"$b/man/hone-worker.8"
	for u in configs/systemd/*.service configs/systemd/*.socket configs/systemd/*.timer configs/systemd/*.path; do
		u=$(basename "$u")
		# Links, which man follows before the installation, too; .so needs the installed folders.
		case $u in
		hone-fleet.*) page=hone-fleet.1 ;;
		hone-sync.*) page=hone-sync.8 ;;
		*) page=honed.8 ;;
		esac
		ln -sf "$page" "$b/man/$u.8"
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
	check "a unit has no page" "$(for u in configs/systemd/*.service configs/systemd/*.socket configs/systemd/*.timer configs/systemd/*.path; do [ -s "$m/$(basename "$u").8" ] || echo "$u"; done)"
	if command -v man >/dev/null; then
		check "man cannot read" "$(cd "$b/.." && for p in "$b"/man/*.[158] "$b"/man3/*.3; do
			[ "$(man "$p" 2>&1 | wc -l)" -gt 5 ] || echo "$p"; done)"
		check "lines of hone_api(3) are wider than 80 columns" "$(MANWIDTH=80 man "$b/man3/hone_api.3" 2>&1 | sed 's/.\x08//g' | awk 'length > 80' | head -3)"
		check "hone_open(3) has no example" "$(man "$b/man3/hone_open.3" 2>&1 | sed 's/.\x08//g' | grep -q '^ \{11\}errx(1' || echo 'errx, indented')"
	else
		echo "skip: man: no man"
	fi
	check "an option of honed is not in honed(8)" "$("$b/honed" --help | grep -oE '^  --[a-z]+' | sed 's/-/\\-/g; s/^  //' | while read -r o; do
		grep -qF -- "$o" "$m/honed.8" || echo "$o"; done)"
	for p in honed hone-sync; do # what is no command is no usage
		check "the synopsis of $p(8)" "$(sed -n '/^.SH SYNOPSIS/,/^.SH DESC/p' "$m/$p.8" | grep -v '^[.]' | grep -vE '^(hone| *\[)')"
	done
	check "honed(8) lacks lines of --help that go on" "$(grep -q '^a line each; exit 1 if there are any' "$m/honed.8" || echo 'a line each ...')"
	check "hone-sync(8) lacks lines of --help that go on" "$(grep -q '^that long at most' "$m/hone-sync.8" || echo 'that long ...')"
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
