#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests hone calibrate as a user has it: an evaluator in C runs two networks by libhone.so, and the tolerated errors are those that follow
# from its rule. Usage: calibrate.sh BUILD
b=$(cd "$1" && pwd) good=0 bad=0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
HOME=$dir
export HOME
hone=$b/hone
if readelf -Ws "$b/libhone.so" | grep -q '__[at]san_'; then
	echo "skip: sanitized libraries need sanitized programs"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi

check() { # description, command...
	what=$1
	shift
	if "$@" >"$dir/checked" 2>&1; then
		good=$((good + 1))
	else
		bad=$((bad + 1))
		echo "calibrate: $what:"
		tail -n 15 "$dir/checked"
	fi
}

# Runs each network 64 times, and compares the outputs with those of a run without errors, which it keeps in a file: the score is
# 1 - (error 1 / 0.4)^2 - (error 2 / 0.6)^2.
cat >"$dir/evaluator.c" <<'C'
#include <hone.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
enum { RUNS = 64 };
static int stop(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, hone_error());
	exit(3);
}
static double error_of(struct hone_handle *h, const char *path)
{
	struct hone_model *m;
	struct hone_tensor in, out;
	char name[256];
	double error = 0, all = 0;
	HONE_INIT(in);
	HONE_INIT(out);
	if (hone_load(h, path, NULL, &m) < 0 || hone_input(m, 0, &in) < 0 || hone_output(m, 0, &out) < 0)
		stop(path);
	float *x = hone_input_buffer(m, 0), *y = hone_output_buffer(m, 0), *clean = malloc(RUNS * out.bytes);
	size_t n = out.bytes / sizeof *y;
	snprintf(name, sizeof name, "%s.clean", path);
	FILE *f = fopen(name, "rb");
	if (f && fread(clean, out.bytes, RUNS, f) != RUNS)
		stop("clean outputs");
	if (f)
		fclose(f);
	for (int r = 0; r < RUNS; r++) {
		srand((unsigned)r);
		for (size_t i = 0; i < in.bytes / sizeof *x; i++)
			x[i] = (float)rand() / (float)RAND_MAX - 0.5f;
		if (hone_run(m) < 0)
			stop("run");
		for (size_t i = 0; i < n; i++) {
			if (!f)
				clean[r * n + i] = y[i];
			error += pow(y[i] - clean[r * n + i], 2);
			all += pow(clean[r * n + i], 2);
		}
	}
	FILE *to = f ? NULL : fopen(name, "wb");
	if (to && fwrite(clean, out.bytes, RUNS, to) != RUNS)
		stop("clean outputs");
	if (to)
		fclose(to);
	free(clean);
	hone_model_close(m);
	return sqrt(error / all);
}
int main(int argc, char **argv)
{
	struct hone_options o;
	struct hone_handle *h;
	HONE_INIT(o);
	o.threads = 1;
	if (argc < 2 || hone_open(&o, &h) < 0)
		stop("open");
	double a = error_of(h, argv[1]), b = argc > 2 ? error_of(h, argv[2]) : 0;
	printf("errors %g %g\nscore %g\n", a, b, 1 - pow(a / 0.4, 2) - pow(b / 0.6, 2));
	hone_close(h);
	return 0;
}
C
cd "$dir" || exit 1
${CC:-cc} -O1 -I"$OLDPWD/agent/run" -o evaluator evaluator.c -L"$b" -lhone -Wl,-rpath,"$b" -lm || exit 1
"$hone" zoo -q steering -o a.onnx && "$hone" zoo -q steering --seed 2 -o b.onnx || exit 1
app() { # evaluator
	printf '[application]\nevaluator = %s\n[network heading]\npath = a.onnx\nerror = regression\n[network distance]\npath = b.onnx\nerror = regression\n' "$1"
}
app './evaluator a.onnx b.onnx' >app.conf

cat >within.py <<'P'
import json, sys
r = json.load(open(sys.argv[1]))
assert r["evaluations"] == 26 and r["evaluations_left"] == 0, r
ok = [p for p in r["points"] if (p["errors"][0] / 0.4) ** 2 + (p["errors"][1] / 0.6) ** 2 <= 1.01]
assert len(ok) == len(r["points"]) >= 4, r["points"]
true = 3.14159265 / 4 * 0.4 * 0.6
assert abs(r["likely_share"] / true - 1) < 0.12, (r["likely_share"], true)
assert 0.7 * true < r["tolerated_share"] <= 1.01 * true, (r["tolerated_share"], true)
assert all(n["root_mean_square"] > 0 for n in r["networks"]), r["networks"]
P
check "it ends well" sh -c "'$hone' calibrate app.conf --json -o page.html >found.json 2>said"
command -v python3 >/dev/null && check "the tolerated errors are those of the evaluator's rule" python3 within.py found.json
check "the errors are reached" sh -c "grep -q 'reached: heading 0.344 in 64 runs, distance 0.344 in 64 runs' said"
check "a page is written" grep -q '<!-- hone calibrate -->' page.html
check "the page shows tolerated errors and those that are not" sh -c "grep -q 'class=\"good\"' page.html && grep -q 'class=\"bad\"' page.html"
check "nothing is run again" sh -c "'$hone' calibrate app.conf --json >again.json 2>said && ! grep -q '^run ' said"
check "a table for people" sh -c "'$hone' calibrate app.conf 2>said | grep -q 'each row: errors that are tolerated'"

app './evaluator a.onnx' >one.conf
check "an evaluator without one of the networks is refused" sh -c "! '$hone' calibrate one.conf 2>said && grep -q 'without a run of network distance: it must load b.onnx' said"
printf '[application]\nevaluator = ./evaluator a.onnx\n[network a]\npath = a.onnx\nerror = detection\n' >shape.conf
check "an output of the wrong shape is refused" sh -c "! '$hone' calibrate shape.conf 2>said && grep -q 'ended with status 3' said &&
	grep -q 'has not the shape of a detection' shape.calibration.output"
printf '[application]\nevaluator = sleep 20\n[network a]\nerror = own\n' >slow.conf
# shellcheck disable=SC2016
check "Ctrl-C ends it, and its evaluator" sh -c '"$0" calibrate slow.conf 2>said & pid=$!; sleep 1; kill -INT $pid; wait $pid; [ $? = 130 ] &&
	grep -q "the same command goes on" said' "$hone"
check "libhone says what is wrong with a page" sh -c "! HONE_CALIBRATE=app.conf ./evaluator a.onnx 2>said && grep -q 'HONE_CALIBRATE' said"
check "without the variable nothing is put in" sh -c "./evaluator a.onnx b.onnx | grep -q '^errors 0 0\$'"

echo "$good passed, $bad failed, 0 skipped"
[ $bad = 0 ]
