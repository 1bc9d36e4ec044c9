#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests libhone as users get it: installed, from C and C++, shared and static; its ABI against tests/lib/libhone.abi; its size.
# Usage: libhone.sh BUILD [golden]
b=$(cd "$1" && pwd) good=0 bad=0 skipped=0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

if readelf -Ws "$b/libhone.so" | grep -q '__[at]san_'; then
	echo "skip: sanitized libraries need sanitized programs"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi

check() { # description, command...
	what=$1
	shift
	if "$@" >"$dir/log" 2>&1; then
		good=$((good + 1))
	else
		bad=$((bad + 1))
		echo "libhone: $what:"
		tail -n 15 "$dir/log"
	fi
}

# Lists what programs rely on: names and versions of the symbols, sizes, offsets and numbers, and every declaration.
abi() { # folder in which agent/run/hone.h lies, symbol to leave out
	${CC:-cc} -I"$1" -I. -o "$dir/abi" tests/lib/libhone_abi.c && {
		nm -D --defined-only "$b/libhone.so" | sed -n 's/.* T \(hone_.*\)/symbol \1/p' | grep -v "^symbol ${2:-none}@" | LC_ALL=C sort
		"$dir/abi"
		sed '/^#include/d; /^#define/d; s/HONE_API //' "$1/agent/run/hone.h" | ${CC:-cc} -E -P -x c - | tr -s '[:space:]' ' ' |
			sed 's/; /;\n/g; s/ *\([(){},;*]\) */\1/g' | sed 's/^ *//; s/^/declares /'
	}
}

if [ "$2" = golden ]; then
	abi . >tests/lib/libhone.abi
	exit
fi
differs() { # sed's change of hone.h, symbol to leave out
	mkdir -p "$dir/broken/agent/run" && sed "$1" agent/run/hone.h >"$dir/broken/agent/run/hone.h" && abi "$dir/broken" "$2" >"$dir/then" &&
		! diff tests/lib/libhone.abi "$dir/then"
}
# Only on 64-bit machines, because sizes differ elsewhere.
if [ "$(getconf LONG_BIT)" = 64 ]; then
	abi . >"$dir/now"
	check "the ABI is not that of tests/lib/libhone.abi" diff tests/lib/libhone.abi "$dir/now"
	check "a field that moved is seen" differs '/^	int dtype; /{h;d};/^	int rank;/{p;x}'
	check "a field that came between is seen" differs 's/^	int64_t load_us;/	int64_t more;\n&/'
	check "a field of another type is seen" differs 's/^	double flops;/	int64_t flops;/'
	check "a number that changed is seen" differs 's/HONE_BUSY = -8/HONE_BUSY = -9/'
	check "an argument of another type is seen" differs 's/int timeout_ms/long timeout_ms/'
	check "a symbol that went is seen" differs '' hone_wait
else
	skipped=$((skipped + 1))
	echo "skip: tests/lib/libhone.abi is of 64-bit machines"
fi

root=$dir/root warn="-pedantic -Wall -Wextra -Werror"
if sh tools/build/install.sh "$b" "$root" usr 0.1.0 libhone.so.1 2>"$dir/log" || ! grep -q "no absolute path" "$dir/log"; then
	echo "install.sh took a relative PREFIX"
	echo "0 passed, 1 failed, 0 skipped"
	exit 1
fi
sh tools/build/install.sh "$b" "$root" /usr 0.1.0 libhone.so.1 "$b"/gen/*.fallback.zst >"$dir/log" 2>&1 || {
	cat "$dir/log"
	echo "0 passed, 1 failed, 0 skipped"
	exit 1
}
if command -v pkg-config >/dev/null; then
	check "install with a blank in PREFIX" env PYTHON_SITE=/site sh tools/build/install.sh "$b" "$dir/blank" "/pre fix" 0.1.0 libhone.so.1 "$b"/gen/*.fallback.zst
	check "hone.pc with a blank in PREFIX" sh -c "[ \"\$(PKG_CONFIG_PATH='$dir/blank/pre fix/lib/pkgconfig' pkg-config --cflags hone)\" = '-I/pre\\ fix/include ' ] ||
		{ PKG_CONFIG_PATH='$dir/blank/pre fix/lib/pkgconfig' pkg-config --cflags hone; false; }"
	rm -rf "$dir/blank"
fi
# What uninstall.sh leaves: what others wrote, and honed.conf if it was edited.
left() { # DESTDIR PREFIX EXPECTED
	PYTHON_SITE=$2/site sh tools/build/uninstall.sh "$b" "$1" "$2" 0.1.0 libhone.so.1 "$b"/gen/*.fallback.zst >"$dir/said" 2>&1 || cat "$dir/said"
	[ "$(cd "$1" && find . ! -name . ! -path './pre fix/bin' | sort | tr '\n' ' ')" = "$3" ] || { (cd "$1" && find .); return 1; }
}
check "install, to be removed" env PYTHON_SITE="/pre fix/site" sh tools/build/install.sh "$b" "$dir/gone" "/pre fix" 0.1.0 libhone.so.1 "$b"/gen/*.fallback.zst
mkdir "$dir/gone/pre fix/site/hone/__pycache__"
touch "$dir/gone/pre fix/bin/other" "$dir/gone/pre fix/site/hone/__pycache__/_model.cpython-311.pyc"
echo '# mine' >>"$dir/gone/etc/hone/honed.conf"
check "uninstall leaves what others wrote" left "$dir/gone" "/pre fix" "./etc ./etc/hone ./etc/hone/honed.conf ./pre fix ./pre fix/bin/other "
check "uninstall says what stays" grep -q 'removed [0-9]* files of hone from .*/pre fix; .*/honed.conf stays, because it was edited$' "$dir/said"
cp configs/honed.conf "$dir/gone/etc/hone"
rm "$dir/gone/pre fix/bin/other"
touch "$dir/gone/keep"
check "uninstall once more" left "$dir/gone" "/pre fix" "./keep "
check "uninstall takes an absolute PREFIX" sh -c "! sh tools/build/uninstall.sh '$b' '$dir/gone' usr 0.1.0 libhone.so.1 2>'$dir/log' && grep -q 'no absolute path' '$dir/log'"
rm -rf "$dir/gone"
PKG_CONFIG_PATH=$root/usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR LD_LIBRARY_PATH="$root/usr/lib"
ex=$root/usr/share/doc/hone/examples
if command -v pkg-config >/dev/null; then
	flags="$(pkg-config --cflags hone)" libs="$(pkg-config --libs hone)" private="$(pkg-config --static --libs hone)"
else
	flags="-I$root/usr/include" libs="-L$root/usr/lib -lhone" private="$libs -lprotobuf-c -lzstd -lpthread -lm -ldl"
fi
for std in c89 c99 c11; do
	check "hone.h in $std" ${CC:-cc} -std=$std $warn -Wstrict-prototypes $flags -o "$dir/classify" "$ex/classify.c" $libs
done
for std in c99 c11; do
	check "hone_backend.h in $std" ${CC:-cc} -std=$std $warn -Wstrict-prototypes -shared -fPIC $flags -o "$dir/backend.so" "$ex/backend.c" -lm
done
if command -v c++ >/dev/null; then
	for std in c++11 c++17 c++20; do
		check "hone.hpp in $std" c++ -std=$std $warn $flags -o "$dir/stream" "$ex/stream.cpp" $libs -pthread
	done
	cat >"$dir/moves.cpp" <<'END'
#include <hone.hpp>

int main(int, char **argv)
{
	hone::options o;
	o.threads = 1;
	hone::handle first(o), h(std::move(first));
	try {
		hone::model(h, "/nonesuch.onnx");
		return 1;
	} catch (const hone::error &e) {
		if (e.status() >= 0 || std::string(e.what()).find("/nonesuch.onnx") == std::string::npos)
			return 2;
	}
	std::vector<hone::model> all;
	for (int i = 0; i < 3; i++)
		all.push_back(hone::model(h, argv[1]));
	h = hone::handle(o); /* models keep what they need of the other one */
	hone::model a(std::move(all[2]));
	all[1] = std::move(a);
	all.clear();
	a.run();
	hone_kernel_want w;
	HONE_INIT(w);
	w.op = HONE_GEMM;
	w.m = w.n = w.k = 3;
	hone::model gemm(h, w);
	gemm.run_async();
	try {
		return gemm.wait() && gemm.ended() && !gemm.kernels().empty() && gemm.summary().threads == 1 && gemm.device() == "cpu" && gemm.input<float>(2) ? 3 : 4;
	} catch (const hone::error &e) {
		return e.status() == HONE_USAGE ? 0 : 5;
	}
}
END
	check "moves and exceptions" sh -c "'$b/hone' zoo -q steering -o '$dir/m.onnx' &&
		c++ -std=c++11 $warn $flags -o '$dir/moves' '$dir/moves.cpp' $libs && XDG_CACHE_HOME='$dir/none' '$dir/moves' '$dir/m.onnx'"
	check "stream" env XDG_CACHE_HOME="$dir/none" sh -c "'$b/hone' zoo -q steering -o '$dir/m.onnx' && '$dir/stream' '$dir/m.onnx' 20"
else
	skipped=$((skipped + 1))
	echo "skip: no c++"
fi
cp -r "$root/usr/lib/hone" "$dir" # a program finds them beside itself
check "libhone.a" ${CC:-cc} -std=c99 $warn $flags -o "$dir/classify-static" "$ex/classify.c" "$root/usr/lib/libhone.a" \
	$(echo "$private" | sed 's/-lhone//')
check "the zoo" "$b/hone" zoo -q steering -o "$dir/m.onnx"
for p in classify classify-static; do
	check "$p without a cache or a home" env -i LD_LIBRARY_PATH="$LD_LIBRARY_PATH" "$dir/$p" "$dir/m.onnx"
	cp "$dir/log" "$dir/$p.out"
done
check "classify says that a file is absent" sh -c "! '$dir/classify' '$dir/m.onnx' '$dir/nosuch' 2>'$dir/absent' &&
	grep -q 'cannot open .*nosuch: No such file' '$dir/absent'"
check "classify says that a file is too short" sh -c "echo x >'$dir/short' && ! '$dir/classify' '$dir/m.onnx' '$dir/short' 2>'$dir/absent' &&
	grep -q 'short has fewer than the [0-9]* bytes' '$dir/absent'"
check "firmware.c" sh -c "cd '$dir' && cp '$ex/firmware.c' . && '$b/hone' compile -q m.onnx --c --name steering -o . &&
	${CC:-cc} -std=c99 $warn -O2 firmware.c steering.c steering_kernels.o steering_weights.o -pthread -o firmware && ./firmware &&
	! nm -u firmware | grep hone"
check "shared and static say the same" diff "$dir/classify.out" "$dir/classify-static.out"
check "built-in kernels are used" grep -q ' [1-9][0-9]* fallback' "$dir/classify.out"
if command -v valgrind >/dev/null; then
	isa=$(uname -m | sed 's/x86_64/x86-64-v2/; s/aarch64/armv8-a/')
	check "valgrind" env HONE_ISA="$isa" HOME="$dir" valgrind -q --error-exitcode=9 --leak-check=full "$dir/classify" "$dir/m.onnx"
	check "valgrind, stream" env HONE_ISA="$isa" HOME="$dir" valgrind -q --error-exitcode=9 --leak-check=full "$dir/stream" \
		"$dir/m.onnx" 3
	# 8 threads, while records come and go; under the thread sanitizer: make SAN=thread t/libhone_crowd
	check "tuning for valgrind" env HONE_ISA="$isa" HONE_WORKER="$b/hone-worker" "$b/hone" tune "$dir/m.onnx" -q --rigor estimate \
		--threads 1 --cache "$dir/tuned"
	check "valgrind, a crowd" env HONE_ISA="$isa" HONE_TUNED="$dir/tuned" CROWD_ROUNDS=2 valgrind -q --error-exitcode=9 \
		--leak-check=full "$b/tests/test_libhone_crowd" refreshes
else
	skipped=$((skipped + 1))
	echo "skip: no valgrind"
fi
cat >"$dir/opens.c" <<'END'
#include <dlfcn.h>
#include <hone.h>

int main(int argc, char **argv)
{
	for (int i = 0; i < 3; i++) {
		struct hone_handle *h;
		struct hone_model *m;
		void *lib = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
		int (*open)(const struct hone_options *, struct hone_handle **) = lib ? dlsym(lib, "hone_open") : 0;
		int (*load)(struct hone_handle *, const char *, const void *, struct hone_model **) = lib ? dlsym(lib, "hone_load") : 0;
		int (*run)(struct hone_model *) = lib ? dlsym(lib, "hone_run") : 0;
		void (*close)(struct hone_handle *) = lib ? dlsym(lib, "hone_close") : 0;
		void (*drop)(struct hone_model *) = lib ? dlsym(lib, "hone_model_close") : 0;
		if (!open || !load || !run || !close || !drop || open(0, &h) < 0 || load(h, argv[2], 0, &m) < 0 || run(m) < 0)
			return 1 + argc;
		drop(m);
		close(h);
		if (dlclose(lib) || !dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD))
			return 2;
	}
	return 0;
}
END
check "dlopen and dlclose" sh -c "${CC:-cc} -std=c11 $flags -o '$dir/opens' '$dir/opens.c' -ldl &&
	XDG_CACHE_HOME='$dir/none' '$dir/opens' '$root/usr/lib/libhone.so.1' '$dir/m.onnx'"
for f in $(sed -n 's/^\t\t//p' agent/run/libhone.map | tr ';' ' '); do
	[ -s "$root/usr/share/man/man3/$f.3" ] || echo "$f"
done >"$dir/pages"
check "functions without a manual page" sh -c "cat '$dir/pages'; ! test -s '$dir/pages'"
nm -g --defined-only "$root/usr/lib/libhone.a" | sed -n 's/.* [A-Za-z] //p' | grep -v '^hone_' >"$dir/names"
check "libhone.a has names of others" sh -c "cat '$dir/names'; ! test -s '$dir/names'"
mv "$root/usr/lib/hone" "$root/usr/lib/gone" # and nothing is in HONE_LIBDIR, or else that is tested
check "alone, libhone.so has kernels" sh -c "env -i LD_LIBRARY_PATH='$LD_LIBRARY_PATH' '$dir/classify' '$dir/m.onnx' 2>&1 |
	grep -q ' [1-9][0-9]* fallback'"
check "what it must not need" sh -c "! readelf -d '$root/usr/lib/libhone.so' | grep NEEDED | grep -E 'hwloc|jansson|LLVM|stdc'"
bytes=$(wc -c <"$root/usr/lib/libhone.so.1")
check "libhone.so has $bytes bytes stripped, more than 1,000,000" test "$bytes" -le 1000000
bytes=$(wc -c <"$root/usr/lib/gone/libhone-device.so")
check "libhone-device.so has $bytes bytes stripped, more than 120,000" test "$bytes" -le 120000
check "libhone-device.so exports other names than hone_device_lib" test "$(nm -D --defined-only "$root/usr/lib/gone/libhone-device.so" | sed 's/.* //')" = hone_device_lib
check "libhone.so links its part for devices" sh -c "! readelf -d '$root/usr/lib/libhone.so' | grep NEEDED | grep device"
echo "$good passed, $bad failed, $skipped skipped"
[ $bad = 0 ]
