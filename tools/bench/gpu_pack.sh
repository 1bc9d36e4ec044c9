#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make gpu-pack: packs `make bench-gpu` for a machine that has an NVIDIA driver, but neither a compiler nor these sources:
# gpu_pack.sh BUILD writes BUILD/hone-gpu.tar.gz. There: tar xf hone-gpu.tar.gz && sh hone-gpu/bench-gpu [-o FILE] [--fake].
# Libraries come with it, except the C library, which must be as new as this machine's. --fake needs no GPU.
set -e
b=$1
dir=$b/gpu-pack root=$b/gpu-pack/hone-gpu
rm -rf "$dir"
mkdir -p "$root/build/lib" "$root/build/tests/fake" "$root/build/tools" "$root/build/fallback" "$root/tools/bench" "$root/tools/peers"
for f in hone hone-worker tests/test_triples tests/test_drills tests/fake/libcuda.so.1 tests/fake/libnvidia-ml.so.1 tests/fake/libcudnn.so.9 \
	tests/fake/libcublas.so.13 tests/fake/libcublasLt.so.13 tools/bench_landscape; do
	strip -o "$root/build/$f" "$b/$f"
done
cp "$b"/fallback/*.zst "$root/build/fallback/"
cp tools/bench/gpu.sh "$root/tools/bench/"
cp tools/peers/bench_gpu.py tools/peers/gpu_libs.py tools/peers/gpu_mean.py "$root/tools/peers/"
for f in hone hone-worker tests/test_triples tests/test_drills tools/bench_landscape; do ldd "$b/$f"; done |
	sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | sort -u | while read -r library; do
	case ${library##*/} in
	libc.so.* | libm.so.* | libpthread.so.* | libdl.so.* | librt.so.*) ;; # the C library
	*) cp -L "$library" "$root/build/lib/" ;;
	esac
done
cat >"$root/bench-gpu" <<'END'
#!/bin/sh
# See the head of tools/bench/gpu.sh.
cd "$(dirname "$0")" || exit 1
LD_LIBRARY_PATH=$PWD/build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
exec sh tools/bench/gpu.sh "$PWD/build" "$@"
END
tar -C "$dir" --owner=0 --group=0 -czf "$b/hone-gpu.tar.gz" hone-gpu
rm -rf "$dir"
echo "$b/hone-gpu.tar.gz: $(wc -c <"$b/hone-gpu.tar.gz") bytes; it needs the C library of $(ldd --version | sed -n '1s/.* //p') or later"
