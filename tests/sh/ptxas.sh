#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Assembles PTX of random candidates, of random candidates of large layers and of random products of fragments:
# ptxas.sh BUILD [EACH [--bench]]. Per architecture EACH candidates, 4 without it, as many of large layers, of which half
# have fragments, and two fifths as many products.
# The assembler: a `ptxas` on PATH if it accepts the architecture, else that of BUILD/ptxas-venv, which
# `make bench-ptxas` makes from PyPI, with --bench that one alone, to which the estimates were fitted; without one an
# architecture is skipped. Each architecture's line says
# how many registers and how much local memory the assembler gave, how many estimates of the registers
# were within 16 (those of texts, kernels/emit/ptx_regs.h; those of plans of fragments, which are made before a candidate
# is lowered, kernels/space/frag.c), what emitting and assembling took, and,
# where there is an nvdisasm, the share of multiply-adds in the innermost loops that have most of them, of good schedules
# for large layers.
# What fails the test: a text that the assembler refuses, spills, local memory, of 100 estimates or more one in 20 that is
# not within 16 of the registers (of large layers' texts, and of one architecture, one in 10; of both, one in 8), and
# where there is an nvdisasm, for sm_87 and sm_90 a large layer whose best schedule, with or without Winograd, has a share
# of multiply-adds below 0.85. With --bench also a median time of emitting above 30 ms, and whatever is skipped.
build=$1 each=${2:-4} bench=${3:-} good=0 bad=0 skipped=0
end() {
	[ -n "$bench" ] && bad=$((bad + skipped))
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
# Prints what is wrong with 100 estimates or more: more than one in $1, or in $2 of those of large layers' texts, is far
# off.
far() {
	awk -v one="$1" -v layers="$2" '$8 { l = $7 ? "large layers" : "random texts"; all[l]++; n[l] += !$5 }
		$10 { all["plans of fragments"]++; n["plans of fragments"] += !$9 }
		END { for (l in all) if (all[l] >= 100 && n[l] > all[l] / (l == "large layers" ? layers : one))
			print n[l] " of " all[l] " estimates of " l " are far off" }'
}
# The shares of estimates that are within 16: of all, those of threads, of large layers, of plans of fragments.
shares() {
	awk 'function share(what) { return all[what] ? sprintf("%.3f of %d", n[what] / all[what], all[what]) : "-" }
		function count(what, near) { n[what] += near; all[what]++ }
		$8 && !$7 { count("text", $5); if ($6) count("threads", $5) }
		$8 && $7 { count("layer", $5) }
		$10 { count($7 ? "large plan" : "plan", $9) }
		END { print share("text") " of the estimates within 16, " share("threads") " of those of threads, " \
			share("layer") " of those of large layers; " share("plan") " of the plans of fragments, " \
			share("large plan") " of those of large layers" }' "$1"
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
path=
[ -n "$bench" ] || path=$(command -v ptxas)
if [ -z "$path$(in_venv ptxas)" ]; then
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
if [ -x "$layers" ] && ! PTX_DIR=$dir/texts PTX_EACH=$(((each + 1) / 2)) "$layers" >"$dir/emitted-layers"; then
	cat "$dir/emitted-layers"
	bad=1
	end
fi
PTX_DIR=$dir/texts SEEDS=$((2 * each)) "$build/tests/test_llvm_ptx_fragments" random_products >"$dir/fragments" || {
	cat "$dir/fragments"
	bad=1
	end
}
dis=$(command -v nvdisasm) || dis=$(in_venv nvdisasm)
for arch in sm_72 sm_75 sm_80 sm_87 sm_90; do
	as=$path
	{ [ -n "$as" ] && accepts "$as" $arch; } || as=$(in_venv ptxas)
	if [ -z "$as" ] || ! accepts "$as" $arch; then
		echo "skip: no ptxas that knows $arch (make bench-ptxas)"
		skipped=$((skipped + 1))
		continue
	fi
	: >"$dir/rows" && refused=0
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
		# of the registers is near, whether an entry has threads, whether it is of a large layer, and whether there
		# is an estimate; whether that of the plan is near, and whether there is one.
		layer=0
		case ${f##*/} in l*) layer=1 ;; esac
		awk -v ms=$ms -v layer=$layer 'BEGIN { want = plan = "" }
			/^\/\/registers / { want = $2 } /^\/\/planned / { plan = $2 }
			/^\.reqntid [0-9]*, ([2-9]|[0-9][0-9])/ { threads = 1 }
			/Used [0-9]+ registers/ { match($0, /Used [0-9]+/); r = substr($0, RSTART + 5, RLENGTH - 5) + 0; if (r > regs) regs = r }
			/bytes stack frame/ { if ($1 > stack) stack = $1; if ($5 > spills) spills = $5 }
			END { print regs + 0, stack + 0, spills + 0, ms, (regs - want) ^ 2 <= 256, threads + 0, layer, want != "", (regs - plan) ^ 2 <= 256, plan != "" }' \
			"$f" "$dir/log" >>"$dir/rows"
	done
	median() { sort -n | awk '{ v[NR] = $1 } END { print NR ? v[int((NR + 1) / 2)] " (at most " v[NR] ")" : "-" }'; }
	echo "$arch: $(wc -l <"$dir/rows") assembled, $refused refused, $(awk '$3 > 0' "$dir/rows" | wc -l) with spills," \
		"$(awk '$2 > 0' "$dir/rows" | wc -l) with local memory; registers $(cut -d' ' -f1 "$dir/rows" | median)," \
		"$(shares "$dir/rows");" \
		"assembled in $(cut -d' ' -f4 "$dir/rows" | median) ms"
	sed -n "s/^$arch: [0-9]* candidates, /$arch: /p" "$dir/emitted"
	ms=$(sed -n "s/^$arch: .*emitted in \([0-9.]*\) ms .*/\1/p" "$dir/emitted")
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
		awk -v arch="$arch" '{ sub(/^[a-z0-9]*-/, "", $1); if (!($1 in best) || $2 > best[$1]) best[$1] = $2 }
			END { for (l in best) { n++; if (!(least <= best[l]) || !least) { least = best[l]; where = l } }
				if (n) print arch ": the best schedules of " n " large layers: at least " least " (" where ")" }' "$dir/layers"
		if [ -z "$dis" ]; then
			echo "$arch: no nvdisasm, so the shares of multiply-adds are not known"
			[ -z "$bench" ] || wrong="$wrong no nvdisasm"
		fi
		;;
	esac
	if [ -n "$bench" ] && awk -v ms="${ms:-1e9}" 'BEGIN { exit ms <= 30 }'; then
		wrong="$wrong emitting takes ${ms:-?} ms (median)"
	fi
	wrong=${wrong# }
	[ -z "$wrong" ] || echo "$arch: $wrong"
	if [ $refused = 0 ] && [ -z "$wrong" ]; then good=$((good + 1)); else bad=$((bad + 1)); fi
done
echo "all: $(shares "$dir/all")"
wrong=$(far 20 10 <"$dir/all")
[ -z "$wrong" ] || { echo "all: $wrong" && bad=$((bad + 1)); }
end
