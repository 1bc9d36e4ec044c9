# SPDX-License-Identifier: Apache-2.0
# make bench-gpu ARGS="[--device cuda:0] [-o FILE] [--fake] [--parts LIST]": what a machine with a GPU is to tell, in less
# than 8 minutes (make gpu-pack makes a tarball that does it on a machine without a compiler): versions, clocks and peaks;
# random kernels against the reference, those of tensor cores among them; times against the draft; networks tuned, also at
# level half; the same layers by cuDNN, cuBLAS and cuBLASLt, and with the networks by PyTorch, in fp32, TF32 and fp16;
# geometric means of hone beside those (tools/peers/gpu_mean.py); faults. Each part has a limit of its own, and the next
# begins whatever became of it. FILE (build/bench-gpu.json) is written anew after each part, so that a machine that goes
# away leaves the parts before: {"device", "machine", "seconds", "parts": {NAME: {"seconds", "runs": [{"command", "exit", "seconds", "out"}]}}}.
# "out" is what a command printed: its JSON, else the end of its text. Exit 124 or 137: its time was over.
# --fake: small parts on the CUDA driver of the tests, to try this script. --parts: some, with "," between them. One runs
# only if it is named: minute tunes a network for 60 s and, from the beginning, for 600 s, which takes 12 minutes.
set -u
build=$1
shift
device=cuda:0 file=$build/bench-gpu.json fake= parts=versions,peaks,triples,draft,networks,peers,faults,means
while [ $# -gt 0 ]; do
	case $1 in
	--device) device=${2?--device needs a name} && shift ;;
	-o) file=${2?-o needs a file} && shift ;;
	--fake) fake=1 ;;
	--parts) parts=${2?--parts needs a list} && shift ;;
	*) echo "bench-gpu: unknown argument $1 (usage: [--device cuda:0] [-o FILE] [--fake] [--parts LIST])" >&2 && exit 2 ;;
	esac
	shift
done
for p in $(echo "$parts" | tr , ' '); do
	case $p in
	versions | peaks | triples | draft | networks | peers | faults | minute | means) ;;
	*) echo "bench-gpu: unknown part $p (versions,peaks,triples,draft,networks,peers,faults,minute,means)" >&2 && exit 2 ;;
	esac
done
hone=$build/hone
export HONE_WORKER="$build/hone-worker" TRIPLES_DEVICE="$device" DRILLS_DEVICE="$device"
networks="resnet18 resnet50 mobilenet_v2 vit_tiny" layers=mobilenet_v2 seeds=200 pairs=40 box=15s runs=50 samples=30 land=45s
half=$networks half_box=8s minute=resnet18 minute_boxes="60s 600s"
if [ "$fake" ]; then
	LD_LIBRARY_PATH=$(cd "$build/tests/fake" && pwd)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
	export LD_LIBRARY_PATH FAKE_CUDA= FAKE_NVML=
	unset DRILLS_DEVICE # its own lies: no kernel of an interpreter can be left hanging
	networks=steering layers=steering seeds=48 pairs=3 box=12s runs=3 samples=3 land=15s
	half=steering half_box=5s minute=steering minute_boxes="6s 12s"
fi
tmp=$(mktemp -d "${TMPDIR:-/tmp}/hone-bench-gpu-XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
cache=$tmp/cache
mkdir "$cache"
begin=$(date +%s)
: >"$tmp/parts"

# A JSON text of the end of a file.
quote()
{
	tail -c 3000 "$1" | LC_ALL=C tr -d '\000-\010\013-\037\177-\377' |
		sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/	/\\t/g' | awk 'BEGIN { printf "\"" } { printf "%s\\n", $0 } END { printf "\"" }'
}

# Its last line that is JSON, or all of it if that is; else its text.
output()
{
	grep -a '^{.*}$' "$1" | tail -n 1 >"$tmp/last"
	for f in "$tmp/last" "$1"; do
		case $(head -c 1 "$f")$(tail -c 3 "$f" | tr -d ' \n' | tail -c 1) in
		'{}') cat "$f" && return ;;
		esac
	done
	quote "$1"
}

write()
{
	{
		printf '{"device": "%s", "machine": ' "$device"
		uname -srm >"$tmp/uname"
		quote "$tmp/uname"
		printf ', "fake": %s, "seconds": %d, "parts": {\n' "${fake:-0}" $(($(date +%s) - begin))
		cat "$tmp/parts"
		printf '}}\n'
	} >"$file.new" && mv "$file.new" "$file"
}

# run SECONDS COMMAND...: at most that long, and not beyond the part's end.
run()
{
	limit=$1
	shift
	start=$(date +%s)
	left=$((part_end - start))
	[ "$left" -lt "$limit" ] && limit=$left
	code=124
	: >"$tmp/out"
	: >"$tmp/err"
	[ "$limit" -gt 0 ] && { timeout -k 5 "$limit" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null; code=$?; }
	[ -s "$tmp/out" ] || cat "$tmp/err" >"$tmp/out"
	echo "$*" | sed "s#$tmp#TMP#g" >"$tmp/command"
	{
		[ -s "$tmp/runs" ] && echo ,
		printf '{"command": '
		quote "$tmp/command"
		printf ', "exit": %d, "seconds": %d, "out": ' $code $(($(date +%s) - start))
		output "$tmp/out"
		printf '}'
	} >>"$tmp/runs"
	[ $code -eq 0 ] || echo "bench-gpu: exit $code: $(cat "$tmp/command")" >&2
	return $code
}

# part NAME SECONDS: does what the function do_NAME says, if the part is wanted.
part()
{
	case ,$parts, in
	*,"$1",*) ;;
	*) return ;;
	esac
	part_begin=$(date +%s)
	part_end=$((part_begin + $2))
	: >"$tmp/runs"
	"do_$1"
	took=$(($(date +%s) - part_begin))
	{
		[ -s "$tmp/parts" ] && echo ,
		printf '"%s": {"seconds": %d, "runs": [\n' "$1" $took
		cat "$tmp/runs"
		printf ']}'
	} >>"$tmp/parts"
	write
	echo "bench-gpu: $1: $took s" >&2
}

do_versions()
{
	run 10 "$hone" version --json
	run 20 "$hone" devices --json --cache "$cache"
	if command -v nvidia-smi >"$tmp/which"; then run 15 nvidia-smi -q -d CLOCK,POWER,PERFORMANCE,TEMPERATURE; fi
}

do_peaks()
{
	run 30 "$HONE_WORKER" --describe "$device" --measure
	run 30 "$HONE_WORKER" --describe "$device" --measure
}

do_triples()
{
	SEEDS=$seeds SECONDS_MOST=50 run 60 "$build/tests/test_triples"
}

do_draft()
{
	SEEDS=$pairs EACH=8 SECONDS_MOST=25 run 30 "$build/tests/test_triples"
	"$hone" -q zoo $layers -o "$tmp/layers.onnx" && mkdir -p "$tmp/land" &&
		run 55 "$build/tools/bench_landscape" "$tmp/layers.onnx" -o "$tmp/land" --device "$device" \
			--samples $samples --rounds 3 --spread 50ms --limit $land
}

need_network()
{
	[ -s "$tmp/$1.onnx" ] || "$hone" -q zoo "$1" -o "$tmp/$1.onnx"
}

do_networks()
{
	for n in $networks; do
		need_network "$n"
		run 40 "$hone" tune "$tmp/$n.onnx" --device "$device" --budget $box --cache "$cache" --json -q
		run 20 "$hone" bench "$tmp/$n.onnx" --device "$device" --runs $runs --cache "$cache" --json -q
	done
	for n in $half; do
		run 30 "$hone" tune "$tmp/$n.onnx" --device "$device" --level half --budget $half_box --cache "$cache" --json -q
		run 15 "$hone" bench "$tmp/$n.onnx" --device "$device" --level half --runs $runs --cache "$cache" --json -q
	done
	run 20 "$hone" verify "$tmp/$n.onnx" --device "$device" --cache "$cache" --json -q
	run 10 "$hone" devices --json --cache "$cache" # with peaks, and the state after all that
}

do_peers()
{
	files=
	for n in $networks; do
		need_network "$n"
		files="$files $tmp/$n.onnx"
	done
	# shellcheck disable=SC2086
	run 35 python3 -B tools/peers/gpu_libs.py --device "$device" $files
	grep -a '^{"skipped"' "$tmp/out" | sed 's/^/bench-gpu: libraries: /' >&2
	# shellcheck disable=SC2086
	run 85 python3 -B tools/peers/bench_gpu.py $files
	grep -a '^{"skipped"' "$tmp/out" | sed 's/^/bench-gpu: peers: /' >&2
}

do_minute()
{
	need_network $minute
	for b in $minute_boxes; do
		run $((${b%s} + 20)) "$hone" tune "$tmp/$minute.onnx" --device "$device" --budget "$b" --cache "$cache-$b" --json -q
		run 20 "$hone" bench "$tmp/$minute.onnx" --device "$device" --runs $runs --cache "$cache-$b" --json -q
	done
}

do_means()
{
	run 10 python3 -B tools/peers/gpu_mean.py "$file"
	cat "$tmp/out" >&2
}

do_faults()
{
	run 60 "$build/tests/test_drills"
}

write
part versions 15
part peaks 25
part triples 60
part draft 75
part networks 145
part peers 120
part minute 740
part means 5
part faults 30
echo "bench-gpu: $file, $(($(date +%s) - begin)) s" >&2
