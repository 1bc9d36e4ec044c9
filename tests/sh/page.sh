#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests the operators' page, and the page of hone report, in a browser: a fleet of made-up boards (tests/tools/fleet/test_fleet_life.c), hone-fleet on a free port,
# headless Chromium. Usage: page.sh BUILD [FOLDER for screenshots].
b=$1 shots=$2
browser=$(command -v chromium || command -v chromium-browser)
if [ -z "$browser" ] || ! command -v python3 >/dev/null; then
	echo "skip: no chromium and python3 here"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
dir=$(mktemp -d) || exit 1
server=
end() {
	[ -z "$server" ] || { kill "$server" && wait "$server"; } 2>/dev/null
	rm -rf "$dir"
}
trap end EXIT
trap 'exit 1' INT TERM
failed() {
	echo "page: $1"
	cat "$dir/said" "$dir/log" 2>/dev/null
	echo "0 passed, 1 failed, 0 skipped"
	exit 1
}

token=$("$b/hone-fleet" init --keys "$dir/keys" --json 2>"$dir/said" | sed -n 's/.*"admin_token": *"\([^"]*\)".*/\1/p')
[ -n "$token" ] || failed "hone-fleet init shows no token"
FLEET_FILL=$dir "$b/tests/test_fleet_life" first_days >"$dir/said" 2>&1 || failed "the fleet cannot be made"
"$b/hone-fleet" serve --keys "$dir/keys" --db "$dir/fleet.db" --publish "$dir/publish" --listen 127.0.0.1:0 2>"$dir/log" &
server=$!
url= tries=0
while [ -z "$url" ] && [ $tries -lt 300 ] && kill -0 "$server" 2>/dev/null; do
	url=$(sed -n 's/.*listens on \(http:[^,]*\),.*/\1/p' "$dir/log")
	[ -n "$url" ] || sleep 0.1
	tries=$((tries + 1))
done
[ -n "$url" ] || failed "hone-fleet does not start"
mkdir "$dir/empty" && "$b/hone" zoo -q squeezenet1_1 -o "$dir/a-network-with-a-very-long-name-that-has-no-blank-to-wrap-at.onnx" &&
	"$b/hone" report -q "$dir"/a-network*.onnx -o "$dir/report.html" --threads 1 --cache "$dir/empty" >"$dir/said" 2>&1 ||
	failed "hone report writes no page"
CHARTS=$dir "$b/tests/test_chart" names_of_slopes >"$dir/said" 2>&1 || failed "no charts are made"
HONE_TOKEN=$token python3 -B tests/sh/page.py "$browser" "$url" "$dir" "$shots" || { cat "$dir/log"; exit 1; }
