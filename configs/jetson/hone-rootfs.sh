#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Puts hone into the root that NVIDIA's flash.sh writes to a Jetson: after apply_binaries.sh and before flash.sh, as root on the host,
#	hone-rootfs.sh Linux_for_Tegra TARBALL MODEL.onnx [SEED.seg]
# TARBALL is that of `make tarball BOARD=jetson-orin DYNAMIC=1`, SEED.seg what `hone pack` wrote on a board of the same class. The
# board tunes /opt/robot/model.onnx in a box of 20 s before whatever unit wants hone-boot.service, and while it is idle. It may be
# repeated. HONE_CONF: a file instead of the section for the model.
set -e
stop() {
	echo "hone-rootfs.sh: error: $1" >&2
	exit 1
}
[ $# -ge 3 ] || stop "usage: hone-rootfs.sh Linux_for_Tegra TARBALL MODEL.onnx [SEED.seg]"
root=$1/rootfs tarball=$2 model=$3 pack=$4
[ -d "$root/etc" ] || stop "$root is no root of a system: unpack NVIDIA's sample root there, and run apply_binaries.sh"
for f in "$tarball" "$model" ${HONE_CONF:+"$HONE_CONF"} ${pack:+"$pack"}; do
	[ -f "$f" ] || stop "there is no file $f"
done
tar -tzf "$tarball" | grep -qx './usr/local/bin/honed' || stop "$tarball is no tarball of hone (make tarball BOARD=jetson-orin DYNAMIC=1)"
[ "$(id -u)" = 0 ] || stop "run this as root: the files of the board's root belong to root"

tar -C "$root" --no-same-owner -xzf "$tarball"
install -d "$root/etc/hone/honed.conf.d" "$root/opt/robot"
[ -e "$root/etc/hone/honed.conf" ] || install -m 644 "$root/usr/local/share/doc/hone/examples/honed.conf" "$root/etc/hone/honed.conf"
install -m 644 "$model" "$root/opt/robot/model.onnx"
if [ -n "$HONE_CONF" ]; then
	install -m 644 "$HONE_CONF" "$root/etc/hone/honed.conf.d/robot.conf"
else
	printf '[model robot]\npath = /opt/robot/model.onnx\n\n[boot]\nbudget = 20s\n' >"$root/etc/hone/honed.conf.d/robot.conf"
fi
[ -z "$pack" ] || install -D -m 644 "$pack" "$root/usr/share/hone/cache/seed.seg"
# The GPU's nodes are closed to units unless these drop-ins open them.
for u in hone-worker@ honed hone-boot; do
	install -D -m 644 "$root/usr/local/share/doc/hone/examples/hone-worker-gpu.conf" "$root/etc/systemd/system/$u.service.d/gpu.conf"
done
# The host cannot run the board's programs, so units are enabled by links. systemd makes the users: here, if the host has it, and else
# in the board's first boot.
wants() { # TARGET UNIT...
	install -d "$root/etc/systemd/system/$1.wants"
	for u in $2; do ln -sfn "/usr/local/lib/systemd/system/$u" "$root/etc/systemd/system/$1.wants/$u"; done
}
wants multi-user.target "honed.service honed.socket hone-boot.service"
wants sockets.target hone-worker.socket
if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers --root="$(realpath "$root")" hone.conf
fi
echo "$root has hone, its units and /opt/robot/model.onnx; flash it as usual"
