#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Assembles PTX of random candidates, of random candidates of large layers and of random products of fragments:
# ptxas.sh BUILD [EACH]. EACH of all three per architecture, 4 without it.
# The assembler: a `ptxas` on PATH if it accepts the architecture, else that of BUILD/ptxas-venv, which
# `make bench-ptxas` makes from PyPI; without one an architecture is skipped. Each architecture's line says
# how many registers and how much local memory the assembler gave, how many estimates of the registers
# (kernels/emit/ptx_regs.h) were within 16, what emitting and assembling took, and,
# where there is an nvdisasm, the share of multiply-adds in the innermost loops that have most of them, of the
# candidates and of good schedules for large layers.
# What fails the test: a text that the assembler refuses, spills, local memory, of 100 estimates or more one in 20 that is
# not within 16 of the registers (of large layers, and of one architecture, one in 10; of both, one in 8), and where
# there is an nvdisasm, for sm_87 and sm_90 a large layer whose best schedule, with or without Winograd, has a share of
# multiply-adds below 0.85.
build=$1 each=${2:-4} good=0 bad=0 skipped=0
end() {
	echo "$good passed, $bad failed, $skipped skipped"
	[ $bad = 0 ]
	exit
}
in_venv() { # name of a program
	find "$build/ptxas-venv" -type f -name "$1" 2>/dev/null | head -n 1
}
accepts() { # assembler, architecture
	printf '.version 6.5\n.target sm_72\n.address_size 64\n' >"$dir/empty.ptx"
	"$1" -arch="$2" -o /dev/null "$dir/empty.ptx" >/dev/null 2>&1
}
# Prints what is wrong with 100 estimates or more: more than one in $1, or in $2 of those of large layers, is far off.
far() {
	awk -v one="$1" -v layers="$2" '$8 { all[$7]++; n[$7] += !$5 }
		END { for (l in all) if (all[l] >= 100 && n[l] > all[l] / (l + 0 ? layers : one)) print n[l] " of " all[l] " estimates are far off" }'
}
# The share of multiply-adds of a program's innermost loop that has most of them: "share instructions".
# Input: nvdisasm -c.
share='
BEGIN { closed = -1 }
/^[ \t]*\.L_x_[0-9]+:/ { gsub(/[ \t:]/, ""); at[$0] = n + 0 }
/^[ \t]*\/\*[0-9a-f]+\*\// {
	sub(/^[ \t]*\/\*[0-9a-f]+\*\/[ \t]+/, ""); sub(/^@!?U?P[T0-9]+[ \t]+/, "")
	math[n + 1] = math[n] + /^(FFMA|IDP|HFMA2|HMMA|IMMA)/; n++
	if (/^BRA/ && match($0, /\.L_x_[0-9]+/)) {
		to = substr($0, RSTART, RLENGTH)
		if (!(to in at)) next
		if (at[to] > closed && math[n] - math[at[to]] > most) { most = math[n] - math[at[to]]; all = n - at[to] }
		if (at[to] > closed) closed = at[to]
	}
}
END { if (most >= 8) print most / all, all }'

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/texts" && : >"$dir/all"
if ! command -v ptxas >/dev/null && [ -z "$(in_venv ptxas)" ]; then
	echo "skip: no ptxas on PATH or in $build/ptxas-venv (make bench-ptxas)"
	skipped=1
	end
fi
PTX_DIR=$dir/texts PTX_EACH=$each "$build/tests/test_llvm_ptx" random_candidates >"$dir/emitted" || {
	cat "$dir/emitted"
	bad=1
	end
}
layers=$build/tests/test_llvm_ptx_layers
if [ -x "$layers" ] && ! PTX_DIR=$dir/texts PTX_EACH=$each "$layers" >"$dir/emitted-layers"; then
	cat "$dir/emitted-layers"
	bad=1
	end
fi
PTX_DIR=$dir/texts SEEDS=$((5 * each)) "$build/tests/test_llvm_ptx_fragments" random_products >"$dir/fragments" || {
	cat "$dir/fragments"
	bad=1
	end
}
dis=$(command -v nvdisasm) || dis=$(in_venv nvdisasm)
for arch in sm_72 sm_75 sm_80 sm_87 sm_90; do
	as=$(command -v ptxas)
	{ [ -n "$as" ] && accepts "$as" $arch; } || as=$(in_venv ptxas)
	if [ -z "$as" ] || ! accepts "$as" $arch; then
		echo "skip: no ptxas that knows $arch (make bench-ptxas)"
		skipped=$((skipped + 1))
		continue
	fi
	: >"$dir/rows" && : >"$dir/shares" && refused=0
	for f in "$dir/texts/$arch"/*.ptx; do
		from=$(date +%s%N)
		if ! "$as" -v -arch=$arch -o "$dir/cubin" "$f" >"$dir/log" 2>&1; then
			echo "$arch: $(basename "$f") is refused:"
			head -n 5 "$dir/log"
			refused=$((refused + 1))
			continue
		fi
		ms=$((($(date +%s%N) - from) / 1000000))
		# The largest of the entries: registers, bytes of stack, bytes of spills; time; whether the estimate
		# of the registers is near, whether an entry has threads, and whether it is of a large layer.
		want=$(sed -n 's|^//registers ||p' "$f")
		threads=$(grep -c '^[.]reqntid [0-9]*, \([2-9]\|[0-9][0-9]\)' "$f")
		layer=$(basename "$f" | grep -c '^l')
		awk -v ms=$ms -v want="$want" -v threads="$threads" -v layer="$layer" '/Used [0-9]+ registers/ { match($0, /Used [0-9]+/); r = substr($0, RSTART + 5, RLENGTH - 5) + 0; if (r > regs) regs = r }
			/bytes stack frame/ { if ($1 > stack) stack = $1; if ($5 > spills) spills = $5 }
			END { print regs + 0, stack + 0, spills + 0, ms, (regs - want) ^ 2 <= 256, threads, layer, want != "" }' "$dir/log" >>"$dir/rows"
		[ -n "$dis" ] && "$dis" -c "$dir/cubin" 2>/dev/null | awk "$share" >>"$dir/shares"
	done
	median() { sort -n | awk '{ v[NR] = $1 } END { print NR ? v[int((NR + 1) / 2)] " (at most " v[NR] ")" : "-" }'; }
	echo "$arch: $(wc -l <"$dir/rows") assembled, $refused refused, $(awk '$3 > 0' "$dir/rows" | wc -l) with spills," \
		"$(awk '$2 > 0' "$dir/rows" | wc -l) with local memory; registers $(cut -d' ' -f1 "$dir/rows" | median)," \
		"$(awk '$8 && !$7 { n += $5; all++ } END { print all ? n / all : "-" }' "$dir/rows") of the estimates within 16," \
		"$(awk '$8 && $6 && !$7 { n += $5; all++ } END { print all ? n / all : "-" }' "$dir/rows") of those of threads," \
		"$(awk '$7 { n += $5; all++ } END { print all ? n / all : "-" }' "$dir/rows") of those of large layers;" \
		"assembled in $(cut -d' ' -f4 "$dir/rows" | median) ms; share of multiply-adds in $(wc -l <"$dir/shares") loops" \
		"$(cut -d' ' -f1 "$dir/shares" | median)"
	sed -n "s/^$arch: [0-9]* candidates, /$arch: /p" "$dir/emitted"
	wrong=$(awk '$3 > 0 { print "spills" } $2 > 0 { print "local memory" }' "$dir/rows" && far 10 8 <"$dir/rows")
	cat "$dir/rows" >>"$dir/all"
	: >"$dir/layers"
	for f in "$dir/texts/$arch"/*.layer; do
		[ -f "$f" ] || continue
		if "$as" -v -arch=$arch -o "$dir/cubin" "$f" >"$dir/log" 2>&1; then
			grep -q '[1-9][0-9]* bytes spill stores' "$dir/log" && wrong="$wrong $(basename "$f") spills"
			[ -n "$dis" ] && part=$("$dis" -c "$dir/cubin" 2>/dev/null | awk "$share") && [ -n "$part" ] &&
				echo "$arch: $(basename "$f" .layer): share of multiply-adds ${part% *}" &&
				echo "$(basename "$f" .layer) ${part% *}" >>"$dir/layers"
		else
			echo "$arch: $(basename "$f") is refused:"
			head -n 5 "$dir/log"
			refused=$((refused + 1))
		fi
	done
	case $arch in
	sm_87 | sm_90)
		wrong="$wrong $(awk '{ sub(/^[a-z0-9]*-/, "", $1); if (!($1 in best) || $2 > best[$1]) best[$1] = $2 }
			END { for (l in best) if (best[l] < .85) print l ": a share of " best[l] }' "$dir/layers")"
		[ -n "$dis" ] || echo "$arch: no nvdisasm, so the shares of multiply-adds are not known"
		;;
	esac
	wrong=${wrong# }
	[ -z "$wrong" ] || echo "$arch: $wrong"
	if [ $refused = 0 ] && [ -z "$wrong" ]; then good=$((good + 1)); else bad=$((bad + 1)); fi
done
wrong=$(far 20 10 <"$dir/all")
[ -z "$wrong" ] || { echo "all: $wrong" && bad=$((bad + 1)); }
end
