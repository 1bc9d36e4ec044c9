# SPDX-License-Identifier: Apache-2.0
# honed.conf(5) from configs/honed.conf, where each key stands with its default, below the words about it and its
# neighbours. awk -v version=V -f man5.awk configs/honed.conf
function troff(s) { gsub(/\\/, "\\e", s); gsub(/-/, "\\-", s); sub(/^[.\047]/, "\\\\\\&&", s); return s }
function flush(	i) {
	for (i = 1; i <= nkeys; i++)
		printf "%s\n.B %s\n", i == 1 ? ".TP" : ".TQ", troff(key[i])
	if (nkeys || (words != "" && !inside))
		printf "%s", words == "" ? "\\&\n" : words
	if (nkeys || !inside)
		words = ""
	nkeys = 0
}
BEGIN {
	printf ".TH HONED.CONF 5 \"\" \"hone %s\"\n.SH NAME\nhoned.conf \\- what honed keeps tuned, when, and within which limits\n", version
	printf ".SH SYNOPSIS\n/etc/hone/honed.conf\n.br\n/etc/hone/honed.conf.d/*.conf\n.SH DESCRIPTION\n"
}
/^#?\[/ {
	flush()
	sub(/^#/, ""); sub(/\[model .*/, "[model NAME]")
	printf ".SH \"%s\"\n%s", $0, words
	words = ""; inside = 1
	next
}
/^#?[a-z_]+ = / { sub(/^#/, ""); key[++nkeys] = $0; next }
/^#/ { if (nkeys) flush(); if ($0 !~ /SPDX/) words = words troff(substr($0, 3)) "\n"; next }
/^$/ { flush() }
END {
	flush()
	printf ".SH VALUES\nDurations are written 500ms, 20s, 2m, 1m30s or 1h (a number alone is seconds), sizes 512K, 64M or 1G (in powers of 1024). # begins a comment at the\n"
	printf "start of a line, ; one behind a value, too. A line has at most 197 bytes of UTF\\-8.\n"
	printf ".SH MISTAKES\nAn unknown section or key, or a value out of range, is refused with file, line and what is allowed:\n"
	printf ".B honed \\-\\-check\nshows all mistakes, those of [sync] too, before they matter. A resident honed keeps what held before; one that starts ends with that message.\n"
	printf ".SH SEE ALSO\n.BR honed (8),\n.BR hone (1)\n"
}
