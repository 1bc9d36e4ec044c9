#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Boots a board and cuts its power: boot.sh BUILD ARM TARBALL. BUILD has this machine's programs, ARM is what
# `make BOARD=generic-arm64` made, TARBALL what `make tarball` made of it. The board is `qemu-system-aarch64 -M virt` with Debian's kernel,
# systemd, hone as the tarball installs it, the units and examples that hone ships, and a stand-in application (tests/lib/robot.c)
# that starts after the boot box. It is emulated, which says nothing of a board's time.
# CUTS (50): QEMU is killed so often in a boot box; the next boot goes on with that disk. STATES (100): states of the disk that a cut
# in one recorded boot may have left (tests/lib/boots.c), two of which boot. STREAMS: boards that run at once. SEED. BOOT_S (1800):
# seconds after which no further cut begins. KEEP=1 keeps the disks and consoles, below BUILD/boot.
# boot.sh --unpack IMAGE: the cache of a disk after a cut, into IMAGE.d/cache; the journal is replayed as at a mount, and the file
# system must be sound.
if [ "$1" = --unpack ]; then
	rm -rf "$2.d" && mkdir "$2.d"
	e2fsck -fy -E journal_only "$2" >"$2.said" 2>&1
	e2fsck -fn "$2" >>"$2.said" 2>&1 || { tail -5 "$2.said"; exit 1; }
	debugfs -R "rdump /var/lib/hone/cache $2.d" "$2" >>"$2.said" 2>&1
	chown -R 0:0 "$2.d" # whose the files are on the board, this machine does not know
	exit
fi
build=$1 arm=$2 tarball=$3 good=0 bad=0 skipped=0
cuts=${CUTS:-50} states=${STATES:-100} seed=${SEED:-1} sets=30 streams=${STREAMS:-$(nproc)}
began=$(date +%s) until=$((began + ${BOOT_S:-1800}))
skip() {
	echo "skip: an emulated board's boots: $1"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
}
for need in qemu-system-aarch64:qemu-system-arm mmdebstrap:mmdebstrap cpio:cpio mke2fs:e2fsprogs e2fsck:e2fsprogs debugfs:e2fsprogs \
	aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu; do
	command -v ${need%%:*} >/dev/null || skip "no ${need%%:*} on PATH (apt-get install qemu-system-arm mmdebstrap cpio e2fsprogs gcc-aarch64-linux-gnu)"
done
[ "$(id -u)" = 0 ] || skip "need root, because the files of the board belong to root"
[ -f "$arm/board" ] && [ -f "$tarball" ] ||
	skip "no programs for the board (make sysroot BOARD=generic-arm64 && make BOARD=generic-arm64 DYNAMIC=1 tarball)"
{ read -r arch && read -r sysroot; } <"$arm/board"
[ "$arch" = arm64 ] || skip "the board is not arm64"
mkdir -p "$build/boot"
kept=$(realpath "$build")/boot # Debian's packages, which are unpacked once
dir=$(mktemp -d "$kept/run-XXXXXX") || exit 1
fast=$dir # for images that are written over and over
[ ! -w /dev/shm ] || fast=$(mktemp -d /dev/shm/hone-boot-XXXXXX)
qemu='' reader='' pids='' initrd=$dir/initrd.gz
end() {
	for p in $pids; do kill "$p" && wait "$p"; done
	[ -z "$qemu" ] || kill -KILL "$qemu"
	[ -z "$reader" ] || wait "$reader"
	[ -n "$KEEP" ] || rm -rf "$dir"
	[ "$fast" = "$dir" ] || rm -rf "$fast"
} 2>/dev/null
trap end EXIT
trap 'exit 1' INT TERM HUP

# ---- the board's disk ----
debian() { # Packages are unpacked; none of their programs runs.
	[ ! -e "$kept/.complete" ] || return 0
	rm -rf "$kept/root" "$kept/linux"
	mirror=$(sed -n 's/^URIs: *//p; s/^deb \(\[[^]]*\] *\)\{0,1\}\([a-z]*:[^ ]*\) .*/\2/p' /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null | head -1)
	libraries=libuv1,libinih1,libjansson4,libprotobuf-c1,libzstd1,libhwloc15,libmbedcrypto7,libmbedx509-1,libpng16-16,libjpeg62-turbo,libseccomp2,libxml2,libstdc++6,zlib1g
	mmdebstrap --quiet --variant=extract --skip=cleanup/apt --architectures=arm64 \
		--include=systemd,systemd-sysv,dash,coreutils,grep,sed,util-linux,mount,base-files,base-passwd,libc-bin,busybox-static,$libraries \
		bookworm "$kept/root" "${mirror:-http://deb.debian.org/debian}" >"$dir/said" 2>&1 || return
	set -- -q -o Dir="$kept/root" -o Dir::State::status="$kept/root/var/lib/dpkg/status" -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root
	image=$(apt-cache "$@" depends linux-image-arm64 2>>"$dir/said" | sed -n 's/^ *Depends: *\(linux-image-[^ ]*\)$/\1/p')
	(cd "$dir" && apt-get "$@" download "$image" >>said 2>&1) && dpkg-deb -x "$dir/$image"_*.deb "$dir/linux" || return
	mkdir "$kept/linux"
	cp "$dir"/linux/boot/vmlinuz-* "$kept/linux/vmlinuz"
	for m in virtio/virtio_pci_modern_dev virtio/virtio_pci_legacy_dev virtio/virtio_pci block/virtio_blk char/hw_random/virtio-rng; do
		cp "$dir"/linux/lib/modules/*/kernel/drivers/$m.ko "$kept/linux" || return
	done
	for m in crypto/crc32c_generic lib/crc16 fs/mbcache fs/jbd2/jbd2 fs/ext4/ext4; do
		cp "$dir"/linux/lib/modules/*/kernel/$m.ko "$kept/linux" || return
	done
	rm -rf "$dir/linux" "$dir"/*.deb "$kept/root/var/lib/apt" "$kept/root/var/cache/apt" "$kept"/root/usr/share/doc "$kept"/root/usr/share/man \
		"$kept"/root/usr/share/locale "$kept"/root/usr/share/zoneinfo "$kept"/root/lib/udev "$kept"/root/usr/share/bash-completion
	touch "$kept/.complete"
}
initrd() {
	mkdir -p "$dir/initrd/dev" "$dir/initrd/proc" "$dir/initrd/root"
	cp "$kept/root/bin/busybox" "$kept"/linux/*.ko "$dir/initrd"
	cat >"$dir/initrd/init" <<'EOF'
#!/busybox sh
/busybox mount -t devtmpfs dev /dev && /busybox mount -t proc proc /proc
for m in virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_blk virtio-rng crc32c_generic crc16 mbcache jbd2 ext4; do
	/busybox insmod /$m.ko
done
until [ -e /dev/vda ]; do /busybox sleep 0.1; done
/busybox mount -t ext4 -o rw /dev/vda /root || { echo "board: cannot mount the disk"; /busybox poweroff -f; }
/busybox mount --move /dev /root/dev && /busybox umount /proc
exec /busybox switch_root /root /lib/systemd/systemd
EOF
	chmod 755 "$dir/initrd/init"
	(cd "$dir/initrd" && find . | cpio -o -H newc --quiet | gzip -1) >"$initrd"
}
disk() {
	root=$dir/root
	etc=$root/etc/systemd/system robot=$root/opt/robot
	cp -a "$kept/root" "$root"
	tar -C "$root" -xzf "$tarball"
	rm -f "$root"/lib/systemd/system-generators/* # none finds anything here, and they take seconds
	# systemd makes hone's users at the first boot, from the files that the tarball has.
	cp "$root/usr/share/base-passwd/passwd.master" "$root/etc/passwd"
	cp "$root/usr/share/base-passwd/group.master" "$root/etc/group"
	echo 00000000000000000000000000000001 >"$root/etc/machine-id"
	ln -sf dash "$root/bin/sh"
	mkdir -p "$robot" "$root/etc/hone/honed.conf.d" "$etc/board.target.wants" "$etc/robot.service.d"
	for u in systemd-udevd.service systemd-udev-trigger.service systemd-udevd-control.socket systemd-udevd-kernel.socket systemd-networkd.service \
		systemd-resolved.service systemd-timesyncd.service systemd-logind.service dbus.service dbus.socket timers.target getty.target \
		systemd-modules-load.service systemd-hwdb-update.service systemd-remount-fs.service systemd-random-seed.service systemd-pstore.service \
		modprobe@.service dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount sys-kernel-tracing.mount sys-kernel-config.mount \
		sys-fs-fuse-connections.mount proc-sys-fs-binfmt_misc.automount systemd-tmpfiles-setup-dev.service systemd-update-utmp.service \
		systemd-ask-password-console.path systemd-ask-password-wall.path systemd-initctl.socket systemd-sysctl.service; do
		ln -sf /dev/null "$etc/$u"
	done
	mkdir "$dir/none"
	for set in $(seq 0 $((sets - 1))); do
		mkdir "$robot/set$set"
		for i in 0 1; do
			f=$robot/set$set/m$i
			"$build/tests/boots" net $((set * 2 + i)) "$f.onnx" "$f.npy" || return
			"$build/hone" run "$f.onnx" --input "$f.npy" --cache "$dir/none" -q -o "$dir/out" >/dev/null || return
			mv "$dir/out/y.npy" "$f.wanted.npy"
		done
	done
	ln -s set0 "$robot/now"
	for i in 0 1; do printf '[model m%d]\npath = /opt/robot/now/m%d.onnx\n' $i $i; done >"$root/etc/hone/honed.conf.d/robot.conf"
	# Tuning after the box would write to the cache, too; only what the box keeps is tested here.
	printf '[boot]\nbudget = 12s\nunclean = 100\n[idle]\ntune = no\n' >>"$root/etc/hone/honed.conf.d/robot.conf"
	aarch64-linux-gnu-gcc --sysroot="$sysroot" -O2 -D_GNU_SOURCE -Wall -Werror -I "$root/usr/local/include" -o "$robot/robot" tests/lib/robot.c \
		-L "$root/usr/local/lib" -Wl,-rpath,/usr/local/lib -Wl,-rpath-link,"$sysroot/usr/lib/aarch64-linux-gnu" -lhone -lm || return
	echo 'int fsync(int f) { return 0 * f; } int fdatasync(int f) { return 0 * f; }' >"$dir/nosync.c"
	aarch64-linux-gnu-gcc --sysroot="$sysroot" -shared -fPIC -o "$root/usr/local/lib/nosync.so" "$dir/nosync.c" || return
	install -m 644 configs/examples/app.conf "$etc/robot.service.d/hone.conf"
	for u in hone-boot.service honed.service honed.socket hone-worker.socket; do
		ln -s /usr/local/lib/systemd/system/$u "$etc/board.target.wants"
	done
	for u in robot.service early.service witness.service end.service; do ln -s ../$u "$etc/board.target.wants"; done
	printf '[Unit]\nRequires=basic.target\nAfter=basic.target\n' >"$etc/board.target"
	unit robot "" "/bin/sh /opt/robot/ask robot"
	unit early "Before=hone-boot.service honed.socket" "/bin/sh /opt/robot/early"
	unit witness "After=early.service" "/opt/robot/robot witness"
	unit end "After=robot.service honed.service" "/bin/sh /opt/robot/end"
	sed -i 's/oneshot/simple/' "$etc/witness.service"
	cat >"$robot/ask" <<'EOF'
for m in m0 m1; do
	/opt/robot/robot run /opt/robot/now/$m.onnx /opt/robot/now/$m.npy /opt/robot/now/$m.wanted.npy | sed "s,^robot: .*/,$1: ,"
done
EOF
	# Before the box: the application's answers with what the last boot has left; then the networks may change.
	cat >"$robot/early" <<'EOF'
sh /opt/robot/ask early
for word in $(cat /proc/cmdline); do
	case $word in board.set=*) ln -sfn set${word#*=} /opt/robot/now && sync ;; esac
done
EOF
	cat >"$robot/end" <<'EOF'
echo "end: box $(systemctl show -P Result hone-boot.service), $(systemctl show -P ExecMainStartTimestampMonotonic hone-boot.service) to" \
	"$(systemctl show -P ExecMainExitTimestampMonotonic hone-boot.service), robot $(systemctl show -P ExecMainStartTimestampMonotonic robot.service)," \
	"honed $(systemctl show -P SubState honed.service), status $(systemctl show -P StatusText hone-boot.service)"
journalctl -q --no-pager -p warning -o cat -u 'hone*' | sed 's/^/complaint: /'
echo "end: over"
case $(cat /proc/cmdline) in *board.hold*) ;; *) systemctl poweroff --no-block ;; esac
EOF
	mke2fs -q -t ext4 -d "$root" "$1" 160M 2>&1 | grep -v '^Creating regular file'
	[ -s "$1" ] && rm -rf "$root"
}
unit() { # name, lines of [Unit], command
	cat >"$etc/$1.service" <<EOF
[Unit]
$2
[Service]
Type=oneshot
ExecStart=$3
StandardOutput=tty
TTYPath=/dev/console
EOF
}

# ---- boots ----
# The board's clock counts instructions (-icount, 8 ns each): a box does the same work on a busy machine as on an idle one.
# Starts the board on a disk; its console goes to $dir/console, and $dir/acks gets each acknowledged generation, with the size that
# the log of the disk's writes has by then. At tick KILL of the box (0.1 s each, in the board's time) and MORE seconds, the power is cut.
boot() { # disk, words for the kernel; LOG: file for the log of writes
	rm -f "$dir/pipe" "$dir/console" "$dir/acks"
	mkfifo "$dir/pipe"
	: >"$dir/acks"
	: >"$dir/console"
	if [ -n "$LOG" ]; then
		set -- "$1" "$2" -blockdev "driver=file,node-name=f,filename=$1" -blockdev "driver=file,node-name=l,filename=$LOG" \
			-blockdev driver=blklogwrites,node-name=d,file=f,log=l,log-sector-size=512
		: >"$LOG"
	else
		set -- "$1" "$2" -blockdev "driver=file,node-name=d,filename=$1"
	fi
	rm -f "$dir/pid"
	append=$2
	shift 2
	while read -r line; do
		case $line in
		"robot: tick "*)
			n=$(echo "${line##* }" | tr -dc 0-9)
			if [ "$n" = "$KILL" ]; then
				sleep "$MORE"
				kill -KILL "$(cat "$dir/pid")"
			fi ;;
		"robot: durable "*) echo "$(echo "${line##* }" | tr -dc 0-9) $([ -z "$LOG" ] && echo 0 || stat -c %s "$LOG")" >>"$dir/acks" ;;
		esac
		printf '%s\n' "$line"
	done <"$dir/pipe" >"$dir/console" &
	reader=$!
	qemu-system-aarch64 -M virt -cpu cortex-a53 -icount shift=3 -rtc clock=vm -smp 1 -m 384 -nographic -nodefaults -serial stdio -no-reboot -kernel "$kept/linux/vmlinuz" -initrd "$initrd" \
		-append "console=ttyAMA0 quiet nokaslr kpti=0 mitigations=off audit=0 init_on_alloc=0 lsm=landlock psi=1 panic=-1 systemd.unit=board.target systemd.journald.forward_to_console=1 systemd.show_status=0 $append" \
		"$@" -device virtio-blk-pci,drive=d -device virtio-rng-pci </dev/null >"$dir/pipe" 2>&1 &
	qemu=$!
	echo "$qemu" >"$dir/pid"
}
ended() { ! kill -0 "$qemu" 2>/dev/null; }
said() { grep -q "$1" "$dir/console"; }
within() { # seconds, command...
	left=$(($1 * 5))
	shift
	until "$@"; do
		left=$((left - 1))
		[ $left -gt 0 ] && kill -0 "$qemu" 2>/dev/null || { "$@"; return; }
		sleep 0.2
	done
}
cut_power() {
	kill -KILL "$qemu"
	wait "$qemu" "$reader"
	qemu='' reader=''
} 2>/dev/null
off() { # waits until the board has gone off by itself
	within 600 ended
	cut_power
	said "end: over"
}

# ---- checks ----
check() { # what, command...
	what=$1
	shift
	if "$@" >"$dir/said" 2>&1; then
		good=$((good + 1))
	else
		bad=$((bad + 1))
		echo "boot: not so: $what"
		tail -n 5 "$dir/said" | sed 's/^/	/'
		grep -aE 'hone|robot:|early:|end:' "$dir/console" | grep -av tick | tail -n 25 | tr -d '\r' | sed 's/^/	| /'
	fi
}
field() { sed -n "s/.*end: $1.*/\\1/p" "$dir/console" | tr -d '\r'; } # with a group
box_us() { echo $(($(field 'box [a-z]*, [0-9]* to \([0-9]*\)') - $(field 'box [a-z]*, \([0-9]*\) to'))); }
box_first() { [ "$(field 'box.*, robot \([0-9]*\)')" -ge "$(field 'box [a-z]*, [0-9]* to \([0-9]*\)')" ]; }
within_us() { box_us && [ "$(box_us)" -le "$1" ]; }
says() { # words of a line, how often
	[ "$(grep -acE "$1" "$dir/console")" -ge "${2:-1}" ]
}
silent() { ! grep -aE 'complaint|WRONG|honed.*error:' "$dir/console"; }
# Whether the cache of a disk has what LIST has, and what was acknowledged.
keeps() { # disk, list, generation
	cp --sparse=always "$1" "$fast/look.img" && sh tests/sh/boot.sh --unpack "$fast/look.img" &&
		"$build/tests/boots" judge "$fast/look.img.d/cache" "$2" "$3"
}
acked() { awk '$1 > n { n = $1 } END { print n + 0 }' "$dir/acks"; }
models_done() { grep -aE 'honed: m[01]: .*->' "$dir/console" | grep -v 'not made yet\|budget ended' | grep -o 'm[01]' | sort -u; }

first_boots() {
	boot "$dir/disk.img" ""
	check "the first boot ends well" off
	check "the box comes before the application" box_first
	check "the box tunes both networks" says 'honed: m[01]: .* -> ' 2
	check "before the box there were no tuned kernels, and the answers were right" says 'early: m[01].onnx: tuned 0 of 2, right' 2
	check "the application finds tuned kernels in the same boot, and its answers are right" says 'robot: m[01].onnx: tuned 2 of 2, right' 2
	check "the box ends within its time" within_us 12000000
	check "honed runs after it" says 'end: .* honed running'
	check "nothing complains" silent
	echo "boot: first boot: a box of $(box_us) us"
	boot "$dir/disk.img" ""
	check "the second boot ends well" off
	check "it finds the kernels" says 'early: m[01].onnx: tuned 2 of 2, right' 2
	check "it has nothing to tune" says 'end: .*every model has its kernels'
	check "it is quick" within_us 2500000
	check "nothing complains then" silent
	echo "boot: second boot: a box of $(box_us) us"
	boot "$dir/disk.img" "board.set=1 hone.budget=6s"
	check "a boot with too short a box ends well" off
	check "the box ends within a time that is too short" within_us 6000000
	check "the application starts after it, and its answers are right" says 'robot: m[01].onnx: tuned [0-9] of 2, right' 2
	check "nothing complains of the short box" silent
	echo "boot: a box of 6 s: $(box_us) us"
}

# Cuts the power in boot boxes, one after the other; each boot begins with what the last cut has left, and tunes other networks.
# Cuts that fall behind the end of a box are checked, too, but do not count.
stream() ( # number, how many cuts
	dir=$dir/stream$1 fast=$fast/stream$1 n=0 late=0 with=0 over=0 good=0 bad=0
	mkdir "$dir" "$fast"
	cp --sparse=always "${dir%/*}/disk.img" "$dir/disk.img"
	trap 'kill -KILL "$qemu" 2>/dev/null' EXIT
	trap 'exit 1' INT TERM HUP
	: >"$dir/list"
	expect=
	while [ $((n - late)) -lt "$2" ] && [ $n -lt $(($2 * 2)) ]; do
		[ "$(date +%s)" -lt "$until" ] || { echo "skip: $(($2 - n + late)) cuts of stream $1: the time is over (BOOT_S)"; over=1; break; }
		n=$((n + 1))
		set -- "$1" "$2" $(awk -v s="$seed" -v a="$1" -v n=$n -v sets=$sets 'BEGIN { srand(s * 100000 + a * 1000 + n); rand(); print int(rand() * 85), rand() / 4, 2 + n % (sets - 4) }')
		KILL=$3 MORE=$4 boot "$dir/disk.img" "board.set=$5 board.hold"
		within 600 ended
		cut_power
		[ "$(acked)" -gt 0 ] && with=$((with + 1))
		says 'Finished hone-boot' && late=$((late + 1))
		check "cut $n of stream $1: the boot after the last cut is healthy, and its answers are right" says 'early: m[01].onnx: tuned [0-9] of 2, right' 2
		for m in $expect; do
			check "cut $n of stream $1: kernels of $m outlive the last cut" says "early: $m.onnx: tuned 2 of 2"
		done
		check "cut $n of stream $1 (set $5, tick $3): nothing complains" silent
		check "cut $n of stream $1 (set $5, tick $3): what was acknowledged is there (generation $(acked))" keeps "$dir/disk.img" "$dir/list" "$(acked)"
		"$build/tests/boots" list "$fast/look.img.d/cache" >"$dir/list"
		expect=$(models_done)
	done
	boot "$dir/disk.img" ""
	check "stream $1: the boot after the last cut ends well" off
	check "stream $1: it leaves no network without kernels" says 'robot: m[01].onnx: tuned 2 of 2, right' 2
	check "stream $1: nothing complains in the last boot" silent
	check "stream $1: it keeps what was there" keeps "$dir/disk.img" "$dir/list" "$(acked)"
	echo "$n $late $with $over $good $bad" >"$dir/result"
)
cut_streams() {
	each=$(((cuts + streams - 1) / streams)) all=0 lates=0 withs=0 overs=0 pids=''
	for i in $(seq 1 "$streams"); do
		stream "$i" $each &
		pids="$pids $!"
	done
	for p in $pids; do wait "$p"; done
	pids=''
	for i in $(seq 1 "$streams"); do
		if [ -s "$dir/stream$i/result" ]; then
			read -r n late with over g b <"$dir/stream$i/result"
			all=$((all + n)) lates=$((lates + late)) withs=$((withs + with)) overs=$((overs + over)) good=$((good + g)) bad=$((bad + b))
		else
			check "stream $i ends" false
		fi
	done
	skipped=$((skipped + overs))
	[ $overs -gt 0 ] || check "$cuts cuts fall into boxes" [ $((all - lates)) -ge "$cuts" ]
	echo "boot: $all power cuts: $((all - lates)) in boxes, $lates behind them; $withs after a commit"
}

# One boot with a box, recorded: every write and flush of the disk. Then the disk as cuts may have left it.
record() { # disk, words for the kernel
	cp --sparse=always "$1" "$dir/base.img"
	LOG=$dir/log boot "$1" "$2"
}
cut_states() { # how many
	"$build/tests/boots" cut "$dir/base.img" "$dir/log" "$dir/acks" "$dir/list" "$fast/state.img" "$1" "sh tests/sh/boot.sh --unpack"
}
list_of() {
	cp --sparse=always "$1" "$fast/look.img" && sh tests/sh/boot.sh --unpack "$fast/look.img" && "$build/tests/boots" list "$fast/look.img.d/cache" >"$dir/list"
}
recorded() {
	record "$dir/disk.img" "board.set=$((sets - 1))"
	check "the recorded boot ends well" off
	check "its box tunes both networks" says 'honed: m[01]: .* -> ' 2
	check "its cache can be read" list_of "$dir/disk.img"
	check "the disk after a cut has what was acknowledged" cut_states "$states"
	tail -n 1 "$dir/said" | sed 's/^/boot: /'
	for i in 1 2; do
		"$build/tests/boots" cut "$dir/base.img" "$dir/log" "$dir/acks" "$dir/list" "$fast/state.img" $i "sh tests/sh/boot.sh --unpack" >"$dir/said" 2>&1
		cp --sparse=always "$fast/state.img" "$dir/state.img"
		boot "$dir/state.img" ""
		check "a disk after a cut boots" off
		check "the application's answers are right there" says 'robot: m[01].onnx: tuned 2 of 2, right' 2
		check "nothing complains there" silent
	done
}

# A board that does not wait for its flash: the same checks must fail, or they would show nothing.
fails() { ! "$@"; }
control() {
	cp --sparse=always "$dir/disk.img" "$dir/lazy.img"
	printf '[Service]\nEnvironment=LD_PRELOAD=/usr/local/lib/nosync.so\n' >"$dir/nosync.conf"
	debugfs -w -f - "$dir/lazy.img" >/dev/null 2>&1 <<EOF
mkdir /etc/systemd/system/hone-boot.service.d
write $dir/nosync.conf /etc/systemd/system/hone-boot.service.d/nosync.conf
EOF
	record "$dir/lazy.img" "board.set=$((sets - 2)) board.hold"
	within 600 says 'Finished hone-boot'
	cut_power
	check "control: honed commits without waiting for the flash" says 'robot: durable' 2
	: >"$dir/none.list"
	check "control: a cut after such a box is found out" fails keeps "$dir/lazy.img" "$dir/none.list" "$(acked)"
	tail -n 2 "$dir/said" | sed 's/^/boot: control: /'
	list_of "$dir/disk.img"
	check "control: states of that disk are found out" fails cut_states 20
	tail -n 2 "$dir/said" | head -n 1 | sed 's/^/boot: control: /'
}

debian || { tail -n 3 "$dir/said"; skip "Debian's packages for arm64 cannot be had (apt-get update shows whether the mirror answers)"; }
initrd && disk "$dir/disk.img" || exit 1
first_boots
echo "boot: after $(($(date +%s) - began)) s: power cuts"
[ "$cuts" = 0 ] || cut_streams
echo "boot: after $(($(date +%s) - began)) s: states of a disk"
recorded
control
echo "boot: $(($(date +%s) - began)) s"
echo "$good passed, $bad failed, $skipped skipped"
[ $bad = 0 ]
