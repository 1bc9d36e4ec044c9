# SPDX-License-Identifier: Apache-2.0
# Manual pages from hone.h: one of each function, with the comment before it, which also speaks for those that follow it
# without a blank line; that of hone_open also has the header's example; and hone_api, the whole header. awk -v dir=OUT -v version=V -f man3.awk agent/run/hone.h
function troff(s) { gsub(/\\/, "\\e", s); sub(/^[.\047]/, "\\\\\\&&", s); return s }
function page(name, text, words,	f) {
	f = dir "/" name ".3"
	printf ".TH %s 3 \"\" \"hone %s\" \"libhone\"\n.SH NAME\n%s \\- run neural networks on the processor of a board\n", \
		toupper(name), version, name >f
	printf ".SH SYNOPSIS\n.nf\n#include <hone.h>\n\n%s.fi\n", text >f
	if (words != "")
		printf ".SH DESCRIPTION\n%s", words >f
	if (name == "hone_open")
		printf ".SH EXAMPLE\n.nf\n%s.fi\n", example >f
	printf ".SH ERRORS\nWhat can fail returns a count or HONE_OK, or a negative status; the text is hone_error()\\(aqs.\n" >f
	printf ".SH SEE ALSO\n.BR hone (1),\n.BR hone_api (3)\n" >f
	close(f)
}
# Lines of the header in 72 columns, which man indents by 7: a tab is 4 blanks, and what is too long goes on below.
function narrow(s,	lead, n, out) {
	while (match(s, /\t/)) s = substr(s, 1, RSTART - 1) (RSTART == 1 || substr(s, 1, RSTART - 1) ~ /^ *(\* *)?$/ ? "    " : " ") substr(s, RSTART + 1)
	match(s, /^ *(\* )?/)
	lead = substr(s, 1, RLENGTH) (s ~ /^ *\*/ ? "" : "    ")
	while (length(s) > 72) {
		for (n = 72; n > length(lead) && substr(s, n, 1) != " "; n--) ;
		if (n <= length(lead)) break
		out = out troff(substr(s, 1, n - 1)) "\n"
		s = lead substr(s, n + 1)
	}
	return out troff(s) "\n"
}
{ whole = whole narrow($0) }
/^\/\*/ { words = ""; inside = 1 }
# The example is what the header's first comment has behind a tab.
inside && NR < 30 && /^ \*\t/ { example = example narrow(substr($0, 4)) }
inside {
	line = $0
	sub(/^\/\* ?/, "", line); sub(/^ \* ?/, "", line); sub(/ ?\*\/.*$/, "", line)
	words = words troff(line) "\n"
	if ($0 ~ /\*\//) inside = 0
	next
}
/^$/ { words = "" }
/^HONE_API/ { text = ""; open = 1 }
open {
	line = $0
	sub(/^HONE_API /, "", line)
	said = ""
	if (match(line, /\/\*.*\*\//)) {
		said = substr(line, RSTART + 3, RLENGTH - 6) "\n"
		line = substr(line, 1, RSTART - 1)
	}
	text = text narrow(line)
	if ($0 ~ /;/) {
		match(text, /hone_[a-z_]+\(/)
		page(substr(text, RSTART, RLENGTH - 1), text, words troff(said))
		open = 0
	}
}
END {
	f = dir "/hone_api.3"
	printf ".TH HONE_API 3 \"\" \"hone %s\" \"libhone\"\n.SH NAME\nhone_api \\- the library for applications: its header\n", version >f
	printf ".SH DESCRIPTION\n.nf\n%s.fi\n.SH SEE ALSO\n.BR hone (1)\n", whole >f
}
