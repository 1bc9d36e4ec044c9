#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Writes the bash completion of a program without commands: complete.sh NAME <HELP, where HELP is what NAME --help prints.
# Lines "  --option [VALUE]  words" name the options; a value DIR is a folder, FILE and PATH are files, and others are free text.
exec awk -v name="$1" '
function add(list, word) { return list " " word }
/^  --/ {
	option = $1; sub(/[[,=].*/, "", option)
	options = add(options, option)
	if ($2 == "DIR") folders = add(folders, option)
	else if ($2 == "FILE" || $2 == "PATH") files = add(files, option)
	else if ($2 ~ /^[A-Z]+$/) texts = add(texts, option)
}
/^  -[a-z],? / { n = split($0, part, /, |  +/); for (i = 1; i <= n; i++) if (part[i] ~ /^-[a-z]$/) options = add(options, part[i]) }
/--version \| version/ { words = " help version" }
function case_of(list, takes) { if (list != "") { gsub(/ /, "|", list); printf "\t%s) %s return ;;\n", substr(list, 2), takes } }
END {
	fn = name; gsub(/-/, "_", fn)
	printf "# made by tools/build/complete.sh of %s --help\n_%s() {\n", name, fn
	print "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} first="
	print "\t# bash takes = as a word of its own"
	print "\tif [ \"$cur\" = = ]; then cur=; elif [ \"$prev\" = = ]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi"
	print "\tCOMPREPLY=()\n\tcase $prev in"
	case_of(folders, "mapfile -t COMPREPLY < <(compgen -d -- \"$cur\");")
	case_of(files, "mapfile -t COMPREPLY < <(compgen -f -- \"$cur\");")
	case_of(texts, "")
	print "\tesac"
	if (words != "") printf "\tif [ \"$COMP_CWORD\" = 1 ]; then first=\"%s\"; fi\n", substr(words, 2)
	known = options " "
	if (known !~ / --help /) options = add(options, "--help")
	if (known !~ / --version /) options = add(options, "--version")
	printf "\tCOMPREPLY=($(compgen -W \"%s $first\" -- \"$cur\"))\n}\n", substr(options, 2)
	printf "complete -o filenames -F _%s %s\n", fn, name
}'
