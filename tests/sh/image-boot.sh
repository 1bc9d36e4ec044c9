#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Boots images that `hone image` made of Debian, and cuts their power at the first boot: image-boot.sh BUILD TARBALL. TARBALL is what
# tools/build/tarball.sh made of BUILD, for this machine. The images have the partitions of Raspberry Pi OS (MBR: FAT, ext4) and of
# Debian's cloud images (GPT: EFI, ext4), Debian's kernel, initrd and systemd, and an application (tests/lib/robot.c).
# QEMU boots each; it loads the kernel, so no boot loader runs, and no partition but the root is read. It emulates the
# processor, unless ACCEL=kvm says that this machine's KVM can run Debian's kernel.
# The power is cut in User Mode Linux, Linux as a program of Linux, which runs hone at this machine's speed: its process is
# killed at a random moment of the first boot of a fresh image. The boot after it has to be healthy, and the application finds
# every kernel again that it had before the cut.
# A busy machine may need more than one box for all kernels. So a board boots, each time with a box twice as long, until all are
# there, three times at most; each of these boots has to be healthy, and the last one without any complaint.
# CUTS (50). STREAMS (1): so many at once. SEED (1). QEMU ("gpt mbr"): which images it boots. BOX (15): seconds of a first box;
# QEMU's emulated processor has BOX_QEMU (90). BOOT_S (5400): seconds after which no further cut begins. KEEP=1 keeps what is made;
# IMAGES=FOLDER takes the images that such a run kept. LAST: cuts come so many seconds after the application's first question
# at most (default: as long as a first box takes).
build=$(realpath "$1") tarball=$2 good=0 bad=0 skipped=0
cuts=${CUTS:-50} seed=${SEED:-1} streams=${STREAMS:-1} budget=${BOX:-15} slow=${BOX_QEMU:-90} accel=${ACCEL:-tcg}
began=$(date +%s) until=$((began + ${BOOT_S:-5400}))
PATH=$PATH:/usr/sbin:/sbin
skip() {
	echo "skip: boots of images: $1"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
}
[ "$(uname -m)" = x86_64 ] || skip "this machine is not x86-64"
for need in qemu-system-x86_64:qemu-system-x86 linux.uml:user-mode-linux mmdebstrap:mmdebstrap mke2fs:e2fsprogs debugfs:e2fsprogs sfdisk:fdisk mkfs.vfat:dosfstools; do
	command -v ${need%%:*} >/dev/null || skip "no ${need%%:*} on PATH (apt-get install qemu-system-x86 user-mode-linux mmdebstrap e2fsprogs fdisk dosfstools)"
done
[ "$(id -u)" = 0 ] || skip "need root, because the files of the image belong to root"
mkdir -p "$build/image-boot"
kept=$build/image-boot # Debian, as a tar archive
dir=$(mktemp -d "$kept/run-XXXXXX") || exit 1
board='' pids=''
end() {
	for p in $pids; do kill "$p" && wait "$p"; done
	[ -z "$board" ] || kill -KILL "-$board"
	[ -n "$KEEP" ] || rm -rf "$dir"
} 2>/dev/null
trap end EXIT
trap 'exit 1' INT TERM HUP

# ---- the image that an integrator has ----
debian() {
	[ ! -s "$kept/debian.tar" ] || return 0
	mirror=$(sed -n 's/^URIs: *//p; s/^deb \(\[[^]]*\] *\)\{0,1\}\([a-z]*:[^ ]*\) .*/\2/p' /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null | head -1)
	libraries=libuv1,libinih1,libjansson4,libprotobuf-c1,libzstd1,libhwloc15,libmbedcrypto7,libmbedx509-1,libpng16-16,libjpeg62-turbo,libseccomp2,libstdc++6,zlib1g,libcurl4
	mmdebstrap --quiet --variant=minbase --include=linux-image-cloud-amd64,systemd-sysv,udev,initramfs-tools,e2fsprogs,$libraries \
		bookworm "$dir/debian.tar" "${mirror:-http://deb.debian.org/debian}" >"$dir/said" 2>&1 && mv "$dir/debian.tar" "$kept/debian.tar"
}
unit() { # name, lines of [Unit], command
	cat >"$root/etc/systemd/system/$1.service" <<END
[Unit]
$2
[Service]
Type=oneshot
ExecStart=$3
StandardOutput=tty
TTYPath=/dev/console
[Install]
WantedBy=multi-user.target
END
	ln -sf "../$1.service" "$root/etc/systemd/system/multi-user.target.wants/$1.service"
}
# A Debian with the application, which knows nothing of hone but libhone's name.
system() {
	root=$dir/root robot=$root/opt/robot
	mkdir "$root" && tar -C "$root" -xf "$kept/debian.tar" && mkdir -p "$robot" || return
	cp "$root"/boot/vmlinuz-* "$dir/vmlinuz" && cp "$root"/boot/initrd.img-* "$dir/initrd" || return
	rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/* "$root"/usr/share/doc/* "$root"/usr/share/locale/* "$root"/usr/share/man/*
	echo 'LABEL=rootfs / ext4 defaults,noatime 0 1' >"$root/etc/fstab"
	echo robot >"$root/etc/hostname"
	: >"$root/etc/machine-id"
	for u in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service getty.target systemd-hwdb-update.service \
		systemd-journal-catalog-update.service systemd-logind.service systemd-binfmt.service; do ln -sf /dev/null "$root/etc/systemd/system/$u"; done
	mkdir "$dir/none"
	for i in 0 1; do
		"$build/tests/boots" net $i "$dir/m$i.onnx" "$robot/m$i.npy" &&
			"$build/hone" run "$dir/m$i.onnx" --input "$robot/m$i.npy" --cache "$dir/none" -q -o "$dir/wanted" >/dev/null &&
			mv "$dir/wanted/y.npy" "$robot/m$i.wanted.npy" || return
	done
	mkdir "$dir/lib" && ln -s "$build/libhone.so" "$dir/lib/libhone.so"
	cc -O2 -D_GNU_SOURCE -Wall -Werror -I agent/run -o "$robot/robot" tests/lib/robot.c -L "$dir/lib" -lhone -lm || return
	cat >"$robot/ask" <<'END'
for m in m0 m1; do
	/opt/robot/robot run /usr/share/hone/models/$m.onnx /opt/robot/$m.npy /opt/robot/$m.wanted.npy 2>&1 | sed "s,^robot: .*/,$1: ,"
done
END
	cat >"$robot/end" <<'END'
echo "end: box $(systemctl show -P Result hone-boot.service), $(systemctl show -P ExecMainStartTimestampMonotonic hone-boot.service) to" \
	"$(systemctl show -P ExecMainExitTimestampMonotonic hone-boot.service), robot $(systemctl show -P ExecMainStartTimestampMonotonic robot.service)," \
	"honed $(systemctl show -P SubState honed.service), status $(systemctl show -P StatusText hone-boot.service)"
/usr/local/bin/hone status >/tmp/status 2>&1 && echo "end: hone status answers"
/usr/local/bin/hone show --cache /var/lib/hone/cache >/tmp/show 2>/tmp/words && echo "end: the cache has $(grep -c . /tmp/show) lines"
echo "end: owners $(stat -c %U:%G /var/lib/hone/cache) $(stat -c %U:%G:%a /run/hone/inhibit.d)"
grep -i 'damage\|unreadable' /tmp/status /tmp/show /tmp/words | sed 's/^/complaint: /'
systemctl --failed --plain --no-legend | sed 's/^/complaint: failed /'
journalctl -q --no-pager -b -p warning -o cat -u 'hone*' | sed 's/^/complaint: /'
journalctl -q --no-pager -p warning -o cat -u 'hone*' | sed 's/^/ever: complaint: /'
journalctl -q --no-pager -b -k -o cat | grep -i 'ext4-fs error\|i/o error' | sed 's/^/complaint: /'
echo "end: over"
systemctl poweroff --no-block
END
	unit robot "" "/bin/sh /opt/robot/ask robot"
	unit early "Before=hone-boot.service honed.socket robot.service" "/bin/sh /opt/robot/ask early"
	unit end "After=robot.service honed.service early.service" "/bin/sh /opt/robot/end"
}
partitions() { # file, label of sfdisk, types of both
	truncate -s 1000M "$1"
	printf 'label: %s\nstart=8192,size=131072,type=%s\nstart=139264,size=1900544,type=%s\n' "$2" "$3" "$4" | sfdisk -q "$1" &&
		mkfs.vfat -F 16 --offset 8192 -n BOOT "$1" 65536 >/dev/null 2>&1 &&
		mke2fs -q -F -t ext4 -L rootfs -d "$root" -E offset=$((139264 * 512)) "$1" 950272k >/dev/null 2>&1
}
make_images() {
	partitions "$dir/mbr.img" dos c 83 && partitions "$dir/gpt.img" gpt U L && rm -rf "$root"
}
hone_image() { # from, to
	"$build/hone" image "$1" -o "$2" --root "$tarball" --model "$dir/m0.onnx" --model "$dir/m1.onnx" --budget ${budget}s --config "$dir/honed.conf" --app robot.service
}

# ---- boots ----
# The board's console goes to $dir/said. The power goes off after CUT seconds, if that is given; a CUT of "early SECONDS" counts
# them from the application's first question on. Boards are groups of processes.
words='rw quiet panic=-1 systemd.show_status=0'
uml() { # disk, what is written over it, words for the kernel
	TMPDIR=${TMPDIR:-/tmp} setsid linux.uml mem=768M "ubd0=$2,$1" root=/dev/ubda2 $words $3 con=null con0=fd:0,fd:1 ssl=null </dev/null >"$dir/said" 2>&1 &
	board=$!
	await
}
emulated() { # disk, words for the kernel
	: >"$dir/said"
	cpu=max
	[ "$accel" != kvm ] || cpu=host,-arch-capabilities
	setsid qemu-system-x86_64 -accel "$accel" -cpu $cpu -smp 2 -m 768 -display none -nodefaults -no-reboot -kernel "$images/vmlinuz" -initrd "$images/initrd" \
		-append "root=/dev/vda2 console=ttyS0 $words mitigations=off no_timer_check nokaslr audit=0 init_on_alloc=0 psi=1 $2" -serial "file:$dir/said" \
		-drive "file=$1,format=raw,if=virtio" -device virtio-rng-pci </dev/null >"$dir/qemu" 2>&1 &
	board=$!
	CUT='' await
}
await() {
	if [ -n "$CUT" ]; then
		left=1200
		while [ "${CUT#early }" != "$CUT" ] && ! says 'early: m1' && [ $left -gt 0 ]; do sleep 0.1; left=$((left - 1)); done
		sleep "${CUT#early }"
	else
		left=4800 # 20 minutes
		while kill -0 "$board" && [ $left -gt 0 ]; do sleep 0.25; left=$((left - 1)); done
	fi 2>/dev/null
	kill -KILL "-$board" 2>/dev/null
	wait "$board" 2>/dev/null
	board=''
}

# ---- checks ----
check() { # what, command...
	what=$1
	shift
	if "$@" >"$dir/check" 2>&1; then
		good=$((good + 1))
	else
		bad=$((bad + 1))
		echo "image-boot: not so: $what"
		tail -n 5 "$dir/check" | sed 's/^/	/'
		tr -d '\r' <"$dir/said" | tail -n 20 | sed 's/^/	| /'
	fi
}
says() { [ "$(tr -d '\r' <"$dir/said" | grep -acE "$1")" -ge "${2:-1}" ]; } # words of a line, how often
# A job that did not end within the box: honed says so.
late='complaint: .*honed: error: model m[01]: (hone tune (ended with status 1|was killed by signal 9)|it ended with status 0, but told honed no result)'
silent() { ! grep -aE 'complaint|WRONG' "$dir/said" | grep -avE "$late"; }
tuned() { tr -d '\r' <"$dir/said" | sed -n "s/.*$1: m[01].onnx: tuned \([0-2]\) of 2, right.*/\1/p" | awk '{ n += $1 } END { print n + 0 }'; } # early or robot
complete() { [ "$(tuned robot)" = 4 ] && ! grep -a complaint "$dir/said" | grep -av 'ever: '; }
field() { sed -n "s/.*end: $1.*/\\1/p" "$dir/said" | tr -d '\r'; } # with a group
box_us() { echo $(($(field 'box [a-z]*, [0-9]* to \([0-9]*\)') - $(field 'box [a-z]*, \([0-9]*\) to'))); }
box_first() { [ "$(field 'box.*, robot \([0-9]*\)')" -ge "$(field 'box [a-z]*, [0-9]* to \([0-9]*\)')" ]; }
begins() { # kernels that the application had when it last ran; fresh: there are none yet
	says 'early: m[01].onnx: tuned [0-2] of 2, right' 2 && case $1 in fresh) [ "$(tuned early)" = 0 ] ;; *) [ "$(tuned early)" -ge "$1" ] ;; esac
}
healthy() { # what, kernels that the application had before: a boot that ends well
	check "$1: it ends by itself" says 'end: over'
	check "$1: the box ends well" says 'end: box success'
	check "$1: the application starts after it" box_first
	check "$1: before the box the application has the kernels that were kept ($2)" begins "$2"
	check "$1: the application's answers are right" says 'robot: m[01].onnx: tuned [0-2] of 2, right' 2
	check "$1: no kernel is lost in the box" [ "$(tuned robot)" -ge "$(tuned early)" ]
	check "$1: honed runs, and hone status answers" says 'honed running|hone status answers' 2
	check "$1: the cache can be read" says 'end: the cache has [1-9]'
	check "$1: systemd made users and folders" says 'end: owners hone:hone hone:hone:1777'
	check "$1: nothing complains, but of jobs that the box was too short for" silent
}
# Boots until the application has all kernels.
until_tuned() { # what, kernels that the application had before, seconds of the first box, command that boots...
	which=$1 had=$2 box=$3 try=1
	shift 3
	while :; do
		"$@" hone.budget=${box}s
		healthy "$which, boot $try" "$had"
		[ $try -gt 1 ] || took_us=$(box_us)
		! complete >"$dir/check" && [ $try -lt 3 ] || break
		had=$(tuned robot) box=$((box * 2)) try=$((try + 1))
	done
	check "$which: the application has all kernels after at most 3 boots" complete
	boots=$((boots + try))
}
make_outputs() {
	for kind in gpt mbr; do
		check "$kind: hone image" hone_image "$dir/$kind.img" "$dir/$kind-out.img"
		check "$kind: on its own output it changes nothing" hone_image "$dir/$kind-out.img" "$dir/$kind-2.img"
		check "$kind: byte for byte" cmp "$dir/$kind-out.img" "$dir/$kind-2.img"
		rm -f "$dir/$kind-2.img"
	done
}
first_and_second() { # what, seconds of the box, command that boots...
	board_is=$1 box_s=$2
	shift 2
	until_tuned "$board_is: first boot" fresh "$box_s" "$@"
	first_us=$took_us
	check "$board_is: the box ends within its time" [ "$first_us" -le $((box_s * 1000000 + 1000000)) ] # the kernel of this board may be slow to start and to end a process
	echo "image-boot: $board_is: $try boots until all kernels are there; the first box took $first_us us"
	until_tuned "$board_is: second boot" 4 "$box_s" "$@"
	check "$board_is: the second boot is enough" [ $try = 1 ]
	echo "image-boot: $board_is: second boot: a box of $took_us us"
}
qemu_boots() {
	for kind in ${QEMU-gpt mbr}; do
		cp --sparse=always "$images/$kind-out.img" "$dir/disk.img"
		first_and_second "QEMU, $kind" "$slow" emulated "$dir/disk.img"
		rm -f "$dir/disk.img"
	done
}
# Kills the board at a random moment of a first boot: every fifth time before the application can ask ($before: about the seconds
# until then), else within $last seconds from then on.
stream() ( # number, first cut, cuts
	dir=$dir/stream$1 good=0 bad=0 over=0 n=0 boots=0
	mkdir "$dir"
	trap 'kill -KILL "-$board" 2>/dev/null' EXIT
	trap 'exit 1' INT TERM HUP
	while [ $n -lt "$3" ]; do
		[ "$(date +%s)" -lt "$until" ] || { over=1; echo "skip: $(($3 - n)) cuts of stream $1: the time is over (BOOT_S)"; break; }
		k=$(($2 + n)) n=$((n + 1))
		cut=$(awk -v s="$seed" -v k=$k -v before="$before" -v last="$last" 'BEGIN { srand(s * 1000 + k); rand(); printf k % 5 ? "early %.2f" : "%.2f", 0.3 + rand() * (k % 5 ? last : before) }')
		rm -f "$dir/disk"
		CUT=$cut uml "$images/mbr-out.img" "$dir/disk"
		at=boot
		says 'early:' && at=box
		says 'robot: m' && at=after
		says 'end: over' && at=over
		had=$(tuned robot)
		boots=0
		CUT='' until_tuned "cut $k (after $cut s, $at)" "$had" "$budget" uml "$images/mbr-out.img" "$dir/disk"
		echo "$k $at $boots $bad" >>"$dir/cuts"
	done
	echo "$good $bad $over" >"$dir/result"
)
power_cuts() {
	each=$(((cuts + streams - 1) / streams))
	for i in $(seq 1 "$streams"); do
		stream "$i" $(((i - 1) * each)) "$each" &
		pids="$pids $!"
	done
	for p in $pids; do wait "$p"; done
	pids=''
	for i in $(seq 1 "$streams"); do
		if [ -s "$dir/stream$i/result" ]; then
			read -r g b over <"$dir/stream$i/result"
			good=$((good + g)) bad=$((bad + b)) skipped=$((skipped + over))
		else
			check "stream $i ends" false
		fi
	done
	cat "$dir"/stream*/cuts | awk '{ n[$2]++; more += $3 > 1 } END { printf "image-boot: %d power cuts: %d before the application could ask, %d until the box had ended, %d behind it, %d too late; after %d of them all kernels took more than one boot\n", NR, n["boot"], n["box"], n["after"], n["over"], more }'
	check "most cuts come before the box has ended" [ $(($(cat "$dir"/stream*/cuts | grep -c ' \(boot\|box\) ') * 2)) -gt "$(cat "$dir"/stream*/cuts | wc -l)" ]
}

export HONE_WORKER="$build/hone-worker" XDG_CACHE_HOME="$dir/cache"
images=$dir
# Tuning after the box would write to the cache, too; only what the box keeps is tested here.
printf '[boot]\nunclean = 100\n[idle]\ntune = no\n' >"$dir/honed.conf"
debian || { tail -n 3 "$dir/said"; skip "Debian's packages cannot be had (apt-get update shows whether the mirror answers)"; }
if [ -n "$IMAGES" ]; then
	images=$(realpath "$IMAGES")
else
	system && make_images || exit 1
	make_outputs
	echo "image-boot: images after $(($(date +%s) - began)) s"
fi
qemu_boots
if [ "$cuts" != 0 ]; then
	boots=0
	first_and_second "User Mode Linux, gpt" $budget uml "$images/gpt-out.img" "$dir/disk"
	before=$(field 'box [a-z]*, \([0-9]*\)[0-9]\{6\} to') # of the board's own clock
	last=${LAST:-$((first_us / 1000000 + 2))}
	rm -f "$dir/disk"
	echo "image-boot: a cut comes within the first $before s of a boot, or within $last s from the application's first question on"
	power_cuts
fi
echo "image-boot: $(($(date +%s) - began)) s"
echo "$good passed, $bad failed, $skipped skipped"
[ $bad = 0 ]
