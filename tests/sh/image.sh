#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests `hone image` on small images that are made here, with stand-ins for the system and for hone's programs: image.sh BUILD.
# FUZZ (9): damaged images. SEED (1). tests/sh/image-boot.sh boots real ones.
build=$(realpath "$1") good=0 bad=0 skipped=0
PATH=$PATH:/usr/sbin:/sbin
skip() {
	echo "skip: hone image: $1"
	echo "$good passed, $bad failed, 1 skipped"
	[ $bad = 0 ]
	exit
}
for need in debugfs:e2fsprogs mke2fs:e2fsprogs e2fsck:e2fsprogs resize2fs:e2fsprogs sfdisk:fdisk xz:xz-utils; do
	command -v ${need%%:*} >/dev/null || skip "no ${need%%:*} on PATH (apt-get install ${need##*:})"
done
dir=$(mktemp -d "$build/image-test-XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM HUP
mkdir "$dir/tmp"
export TMPDIR="$dir/tmp" SOURCE_DATE_EPOCH=1700000000 HONE_WORKER="$build/hone-worker" XDG_CACHE_HOME="$dir/cache"

# ---- images ----
# A root file system as far as hone image looks at it.
system() { # folder, program that is its systemd
	mkdir -p "$1/etc/systemd/system" "$1/usr/lib/systemd" "$1/usr/local/bin" "$1/var/lib/dpkg"
	ln -s usr/lib "$1/lib"
	echo 'ID=debian' >"$1/usr/lib/os-release"
	ln -s ../usr/lib/os-release "$1/etc/os-release"
	cp "$2" "$1/usr/lib/systemd/systemd"
	: >"$1/etc/.updated"
	printf 'Package: libc6\nStatus: install ok installed\n\nPackage: libuv1\nStatus: deinstall ok config-files\n' >"$1/var/lib/dpkg/status"
}
filesystem() { # image, offset, KiB, root, more for mke2fs...
	f=$1 o=$2 k=$3 r=$4
	shift 4
	mke2fs -q -F -t ext4 -U 11111111-2222-3333-4444-555555555555 -E "offset=$o,hash_seed=11111111-2222-3333-4444-555555555555" -d "$r" "$@" "$f" "$k"k >/dev/null 2>&1
}
# As Raspberry Pi OS: FAT, then ext4. As Debian's cloud images: EFI and ext4. As a board's rootfs.ext4.
images() {
	truncate -s 24M "$dir/mbr.img"
	printf 'label: dos\nlabel-id: 0x12345678\nstart=2048,size=8192,type=c\nstart=10240,type=83\n' | sfdisk -q "$dir/mbr.img"
	filesystem "$dir/mbr.img" $((10240 * 512)) $((24576 - 5120)) "$dir/system"
	truncate -s 24M "$dir/gpt.img"
	printf 'label: gpt\nlabel-id: 11111111-2222-3333-4444-555555555555\nstart=2048,size=8192,type=U,uuid=11111111-2222-3333-4444-555555555556\nstart=10240,size=36864,type=L,uuid=11111111-2222-3333-4444-555555555557\n' | sfdisk -q "$dir/gpt.img"
	filesystem "$dir/gpt.img" $((10240 * 512)) 18432 "$dir/system"
	truncate -s 16M "$dir/plain.img"
	filesystem "$dir/plain.img" 0 16384 "$dir/system" -O ^has_journal,^metadata_csum
}
tarball() { # file, program that stands for hone's, line of NEEDS
	t=$dir/tar-$$
	mkdir -p "$t/usr/local/bin" "$t/usr/local/lib" "$t/usr/local/share/doc/hone/examples"
	for p in hone honed hone-worker; do cp "$2" "$t/usr/local/bin/$p"; done
	sh tools/build/units.sh --install "$t" /usr/local
	rm -rf "$t/usr/local/lib/systemd/system/hone-fleet.service" "$t/etc"
	echo "lib 1" >"$t/usr/local/lib/libhone.so.1"
	ln -s libhone.so.1 "$t/usr/local/lib/libhone.so"
	echo "$3" >"$t/usr/local/share/doc/hone/NEEDS"
	tar -C "$t" --owner=0 --group=0 -czf "$1" .
	rm -rf "$t"
}
offset() { case $1 in *plain*) echo 0 ;; *) echo $((10240 * 512)) ;; esac; }
inside() { debugfs -R "$2" "$1?offset=$(offset "$1")" 2>&1 | sed '/^debugfs [0-9]/d'; } # image, command of debugfs
sound() { e2fsck -fn "$1?offset=$(offset "$1")" >/dev/null 2>&1; }

# ---- checks ----
check() { # what, command...
	what=$1
	shift
	if "$@" >"$dir/said" 2>&1; then
		good=$((good + 1))
	else
		bad=$((bad + 1))
		echo "image: not so: $what"
		tail -n 5 "$dir/said" "$dir/err" | sed 's/^/	/'
	fi
}
fails() { ! "$@"; }
make_image() { "$build/hone" image "$@" >"$dir/out" 2>"$dir/err"; } # arguments of hone image
usual() { # image, result, more...
	i=$1 o=$2
	shift 2
	make_image "$i" -o "$o" --root "$dir/a.tar.gz" --model "$dir/camera.onnx" --budget 12s "$@"
}
# A run fails with status 1 or 2 and the words, and leaves nothing behind.
refused() { # what, words, arguments...
	what=$1 words=$2
	shift 2
	rm -f "$dir/none.img"
	make_image "$@" -o "$dir/none.img"
	status=$?
	check "$what: exit status 1 or 2 (is $status)" [ $status = 1 -o $status = 2 ]
	check "$what: it says '$words'" grep -q -- "$words" "$dir/err"
	check "$what: one line" [ "$(wc -l <"$dir/err")" -le 2 ]
	check "$what: nothing is left" clean
}
clean() { [ ! -e "$dir/none.img" ] && [ -z "$(ls -A "$TMPDIR")" ] && ! ls -A "$dir" | grep '^\.hone-image'; }
has_file() { inside "$1" "stat $2" | grep -q "Type: $3 .*Mode:  $4 " && inside "$1" "stat $2" | grep -q 'User:     0   Group:     0'; }
content() { rm -f "$dir/dumped"; inside "$1" "dump $2 $dir/dumped" && cmp "$dir/dumped" "$3"; }

good_images() {
	for kind in mbr gpt plain; do
		cp "$dir/$kind.img" "$dir/before.img"
		check "$kind: an image is made" usual "$dir/$kind.img" "$dir/$kind-1.img"
		check "$kind: IN is as it was" cmp "$dir/$kind.img" "$dir/before.img"
		check "$kind: the root file system is sound" sound "$dir/$kind-1.img"
		usual "$dir/$kind.img" "$dir/$kind-2.img"
		check "$kind: the same inputs give the same bytes" cmp "$dir/$kind-1.img" "$dir/$kind-2.img"
		usual "$dir/$kind-1.img" "$dir/$kind-2.img"
		check "$kind: on its own output it changes nothing" cmp "$dir/$kind-1.img" "$dir/$kind-2.img"
		check "$kind: a program" has_file "$dir/$kind-1.img" /usr/local/bin/honed regular 0755
		check "$kind: the model" content "$dir/$kind-1.img" /usr/share/hone/models/camera.onnx "$dir/camera.onnx"
		check "$kind: the model can be read by all" has_file "$dir/$kind-1.img" /usr/share/hone/models/camera.onnx regular 0644
		check "$kind: the box is enabled" has_file "$dir/$kind-1.img" /etc/systemd/system/multi-user.target.wants/hone-boot.service symlink 0777
		check "$kind: honed is enabled" has_file "$dir/$kind-1.img" /etc/systemd/system/multi-user.target.wants/honed.service symlink 0777
		check "$kind: systemd makes the users" fails has_file "$dir/$kind-1.img" /etc/.updated regular 0644
		check "$kind: what lies before the root is as it was" cmp -n "$(($(offset "$dir/$kind.img") + 1024))" "$dir/$kind.img" "$dir/$kind-1.img"
	done
	printf '# Written by hone image.\n[boot]\nbudget = 12s\n[model camera]\npath = /usr/share/hone/models/camera.onnx\n' >"$dir/wanted"
	check "the configuration" content "$dir/mbr-1.img" /etc/hone/honed.conf.d/image.conf "$dir/wanted"
	rm -f "$dir"/gpt-?.img "$dir"/plain-?.img "$dir/before.img"
	make_image "$dir/mbr.img" -o "$dir/mbr-2.img" --root "$dir/a.tar.gz" --model "$dir/camera.onnx" --json
	check "--json" grep -q '"command": *"image".*"arch": *"amd64"' "$dir/out"
}
again() {
	"$build/tests/boots" net 2 "$dir/lanes.onnx" "$dir/x.npy"
	check "another model, a pack and an application" make_image "$dir/mbr-1.img" -o "$dir/mbr-2.img" --root "$dir/a.tar.gz" \
		--model "$dir/lanes.onnx" --pack "$dir/seed.seg" --app robot.service --shape x=1x8x8x8 --threads 1
	check "the former model is gone" fails has_file "$dir/mbr-2.img" /usr/share/hone/models/camera.onnx regular 0644
	check "the new one is there" content "$dir/mbr-2.img" /usr/share/hone/models/lanes.onnx "$dir/lanes.onnx"
	check "the pack is there, root's" has_file "$dir/mbr-2.img" /usr/share/hone/cache/image.seg regular 0644
	check "the pack's bytes" content "$dir/mbr-2.img" /usr/share/hone/cache/image.seg "$dir/seed.seg"
	check "the application waits for the box" has_file "$dir/mbr-2.img" /etc/systemd/system/robot.service.d/hone.conf regular 0644
	printf '# Written by hone image.\n[model lanes]\npath = /usr/share/hone/models/lanes.onnx\nshape = x=1x8x8x8\nthreads = 1\n' >"$dir/wanted"
	check "its settings" content "$dir/mbr-2.img" /etc/hone/honed.conf.d/image.conf "$dir/wanted"
	check "that is sound" sound "$dir/mbr-2.img"
	check "back again" usual "$dir/mbr-2.img" "$dir/mbr-3.img"
	check "the pack is gone" fails has_file "$dir/mbr-3.img" /usr/share/hone/cache/image.seg regular 0644
	check "the application's drop-in is gone" fails has_file "$dir/mbr-3.img" /etc/systemd/system/robot.service.d/hone.conf regular 0644
	check "nothing is doubled" [ "$(inside "$dir/mbr-3.img" 'ls -p /usr/share/hone/models' | grep -c onnx)" = 1 ]
	check "that is sound, too" sound "$dir/mbr-3.img"
	rm -f "$dir/mbr-2.img" "$dir/mbr-3.img"
	# honed.conf of the image stays; one that is given replaces it.
	cp "$dir/mbr.img" "$dir/own.img"
	printf '[idle]\ntune = no\n[model arm]\npath = /opt/arm.onnx\n' >"$dir/own.conf"
	printf 'mkdir /etc/hone\ncd /etc/hone\nwrite %s honed.conf\n' "$dir/own.conf" | debugfs -w -f - "$dir/own.img?offset=$(offset mbr)" >/dev/null 2>&1
	check "an image with a configuration" usual "$dir/own.img" "$dir/mbr-2.img"
	check "its configuration stays" content "$dir/mbr-2.img" /etc/hone/honed.conf "$dir/own.conf"
	check "a model that is not there yet is a note" grep -q 'note: honed.conf names /opt/arm.onnx' "$dir/err"
	echo '[idle]' >"$dir/other.conf"
	check "one is given" usual "$dir/own.img" "$dir/mbr-3.img" --config "$dir/other.conf"
	check "it replaces that of the image" content "$dir/mbr-3.img" /etc/hone/honed.conf "$dir/other.conf"
	rm -f "$dir/mbr-2.img" "$dir/mbr-3.img"
}
edit() { debugfs -w -f - "$1?offset=$(offset "$1")" >/dev/null 2>&1; } # image; commands of debugfs on standard input
# Texts of an image become neither commands of debugfs nor lines for hone.
hostile_texts() {
	printf '[model arm]\npath = /x\\ndump /etc/evil %s\\n\n' "$dir/pwned" >"$dir/evil.conf"
	cp "$dir/mbr.img" "$dir/mbr-evil.img"
	printf 'mkdir /etc/hone\ncd /etc\nwrite %s evil\ncd /etc/hone\nwrite %s honed.conf\n' "$dir/evil.conf" "$dir/evil.conf" | edit "$dir/mbr-evil.img"
	check "honed.conf with a command of debugfs: an image is made" usual "$dir/mbr-evil.img" "$dir/mbr-2.img"
	check "it runs none" [ ! -e "$dir/pwned" ]
	check "it is a note" grep -qF 'note: honed.conf names /x\ndump' "$dir/err"
	printf 'rm /etc/hone/honed.conf\nmkdir /etc/hone/honed.conf.d\ncd /etc/hone/honed.conf.d\nwrite %s 10-own.conf\n' "$dir/evil.conf" | edit "$dir/mbr-evil.img"
	rm -f "$dir/mbr-2.img" "$dir/pwned"
	check "a drop-in with a command of debugfs: an image is made" usual "$dir/mbr-evil.img" "$dir/mbr-2.img"
	check "it runs none" [ ! -e "$dir/pwned" ]
	check "it is a note, too" grep -qF 'note: honed.conf names /x\ndump' "$dir/err"
	printf '[model arm]\npath = /opt/arm\\narch toaster\\nerror forged\\033[2J.onnx\n' >"$dir/evil.conf"
	printf 'cd /etc/hone/honed.conf.d\nrm 10-own.conf\nwrite %s 10-own.conf\n' "$dir/evil.conf" | edit "$dir/mbr-evil.img"
	rm -f "$dir/mbr-2.img"
	check "a drop-in with lines for hone: an image is made" usual "$dir/mbr-evil.img" "$dir/mbr-2.img"
	check "they are none" grep -q 'mbr-2.img: .*(partition 2, amd64)' "$dir/out"
	check "nor are control characters" fails grep -q "$(printf '\033')" "$dir/err"
	check "it is a note of one line" grep -qF '\narch toaster\nerror forged\033[2J.onnx' "$dir/err"
	refused "an error of several lines" 'x\\narch y is not a file' "$dir/x\narch y" --root "$dir/a.tar.gz" --model "$dir/camera.onnx"
	refused "an error with a control character" 'x?\[2J is not a file' "$dir/x$(printf '\033')[2J" --root "$dir/a.tar.gz" --model "$dir/camera.onnx"
	mkdir "$dir/a\\nb"
	cp "$dir/camera.onnx" "$dir/a\\nb/camera.onnx"
	check "a model whose path has a backslash" make_image "$dir/mbr.img" -o "$dir/mbr-3.img" --root "$dir/a.tar.gz" --model "$dir/a\\nb/camera.onnx"
	check "it is there" content "$dir/mbr-3.img" /usr/share/hone/models/camera.onnx "$dir/camera.onnx"
	t=$dir/links
	mkdir -p "$t" "$dir/target"
	tar -C "$t" -xzf "$dir/a.tar.gz"
	mv "$t/usr/local/share" "$dir/target/share"
	ln -s "$dir/target/share" "$t/usr/local/share"
	tar -C "$t" --owner=0 --group=0 -czf "$dir/links.tar.gz" .
	refused "a tarball with a link out of it" "it has /usr/local/share" "$dir/mbr.img" --root "$dir/links.tar.gz" --model "$dir/camera.onnx"
	check "nothing is written there" [ ! -e "$dir/target/share/hone/image.list" ]
	rm -rf "$t" "$dir/target" "$dir/links.tar.gz" "$dir/mbr-evil.img" "$dir/mbr-2.img" "$dir/mbr-3.img"
}
# The configuration is checked against files of the image, not of this machine: models that are none here, and files of [sync].
others() {
	echo "not a model" >"$dir/here.onnx"
	up=/usr/share/hone/models$(printf '/..%.0s' 1 2 3 4 5 6 7 8 9 10 11 12)
	printf '[model arm]\npath = %s\n[model leg]\npath: %s\n[model up]\npath = %s\n[sync]\nserver = https://fleet.example\nca = %s\ntoken = /opt/token\n' \
		"$dir/here.onnx" "$dir/here.onnx" "$up$dir/here.onnx" /opt/ca.pem >"$dir/evil.conf"
	cp "$dir/mbr.img" "$dir/mbr-o.img"
	printf 'mkdir /opt\nmkdir /etc/hone\nmkdir /etc/hone/honed.conf.d\ncd /etc/hone/honed.conf.d\nwrite %s 10-own.conf\ncd /opt\nwrite %s token\n' "$dir/evil.conf" "$dir/evil.conf" | edit "$dir/mbr-o.img"
	check "models outside the image's folder: an image is made" usual "$dir/mbr-o.img" "$dir/mbr-2.img"
	check "this machine's file is not taken for the board's" grep -qF "note: honed.conf names $dir/here.onnx, which the image does not have" "$dir/err"
	check "nor by a path with dots" grep -qF "note: honed.conf names $up$dir/here.onnx, which" "$dir/err"
	check "a missing file of [sync] is a note" grep -qF 'names /opt/ca.pem, which the image does not have' "$dir/err"
	check "one that is there is none" fails grep -qF /opt/token "$dir/err"
	check "no path of the check comes out" fails grep -q '/proc/0\|/tmp/hone-image' "$dir/err"
	rm -f "$dir/mbr-2.img"
	long=/opt/$(printf 'a%.0s' $(seq 160)).onnx
	printf '[model arm]\npath = %s\n' "$long" >"$dir/evil.conf"
	check "a long path" usual "$dir/mbr.img" "$dir/mbr-2.img" --config "$dir/evil.conf"
	check "its note has all of it" grep -qF "names $long, which" "$dir/err"
	rm -f "$dir/mbr-o.img" "$dir/mbr-2.img" "$dir/here.onnx"
}
# Packages, modes and errors of sync, and runs that are ended.
packages() { # status file of dpkg; the image $dir/mbr-p.img gets it
	printf "$1" >"$dir/status"
	cp "$dir/mbr.img" "$dir/mbr-p.img"
	printf 'cd /var/lib/dpkg\nrm status\nwrite %s status\n' "$dir/status" | edit "$dir/mbr-p.img"
}
mode_is() { [ "$(stat -c %a "$1")" = "$2" ]; }
stand_in() { # program, lines of a shell script that runs before it
	mkdir -p "$dir/bin" && rm -f "$dir/bin/$1" && hash -r
	printf '#!/bin/sh\n%s\nexec %s "$@"\n' "$2" "$(command -v "$1")" >"$dir/bin/$1"
	chmod 755 "$dir/bin/$1"
}
group() { sed 's/.*) //' "/proc/$1/stat" | cut -d ' ' -f 3; } # of a process
endings() {
	packages 'Package: libuv1\nStatus: install ok installed\n\nPackage: libc6\nStatus: hold ok installed\n'
	check "a package on hold is there" usual "$dir/mbr-p.img" "$dir/mbr-2.img"
	packages 'Package: libc6\nStatus: deinstall ok config-files\n'
	refused "no package is installed" "lacks packages .*: libc6\." "$dir/mbr-p.img" --root "$dir/a.tar.gz" --model "$dir/camera.onnx"
	rm -f "$dir/mbr-p.img" "$dir/mbr-2.img"
	cp "$dir/mbr.img" "$dir/mbr-m.img"
	chmod 640 "$dir/mbr-m.img"
	usual "$dir/mbr-m.img" "$dir/mbr-2.img"
	check "OUT has IN's mode" mode_is "$dir/mbr-2.img" 640
	chmod 666 "$dir/mbr-m.img"
	(umask 027 && usual "$dir/mbr-m.img" "$dir/mbr-2.img")
	check "masked by the umask" mode_is "$dir/mbr-2.img" 640
	rm -f "$dir/mbr-m.img" "$dir/mbr-2.img"
	PATH=$dir/bin:$PATH
	stand_in sync '[ -d "$1" ] || exit 1'
	refused "a disk with errors" "cannot write" "$dir/mbr.img" --root "$dir/a.tar.gz" --model "$dir/camera.onnx"
	stand_in sync '[ ! -d "$1" ] || exit 1'
	check "a folder that cannot be synced" usual "$dir/mbr.img" "$dir/mbr-2.img"
	rm -f "$dir/bin/sync" "$dir/mbr-2.img"
	# The reader goes away before the first line.
	stand_in debugfs 'sleep 0.02'
	{ "$build/hone-image" --in="$dir/mbr.img" --out="$dir/none.img" --root="$dir/a.tar.gz" --model=camera="$dir/camera.onnx" 2>/dev/null; } | :
	check "without a reader nothing is left" clean
	# hone is killed while e2fsck checks what was written.
	rm "$dir/bin/debugfs"
	stand_in e2fsck "case \$* in */out*) cut -d ' ' -f 5 /proc/\$\$/stat >$dir/group; : >$dir/checks; sleep 1; : >$dir/checked ;; esac"
	make_image "$dir/mbr.img" -o "$dir/none.img" --root "$dir/a.tar.gz" --model "$dir/camera.onnx" &
	shell=$! left=200
	until [ -e "$dir/checks" ] || [ $left = 0 ]; do sleep 0.05; left=$((left - 1)); done
	check "Ctrl-C reaches e2fsck" [ "$(cat "$dir/group")" = "$(group $$)" ]
	kill -KILL "$(cat "/proc/$shell/task/$shell/children")"
	wait "$shell" 2>/dev/null
	left=100
	until [ -e "$dir/checked" ] && clean || [ $left = 0 ]; do sleep 0.05; left=$((left - 1)); done
	sleep 0.5
	check "hone was killed: no image, and nothing is left" clean
	rm -rf "${dir:?}/bin" "$dir/none.img"
	PATH=${PATH#*:}
}
put() { printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; } # file, offset, bytes as of printf
damaged() { # which, offset, bytes; $dir/d.img gets a damaged copy
	cp "$dir/$1.img" "$dir/d.img"
	put "$dir/d.img" "$2" "$3"
}
bad_images() {
	set -- --root "$dir/a.tar.gz" --model "$dir/camera.onnx"
	root=$((10240 * 512))
	echo text >"$dir/d.img"
	refused "a small file" "not an image" "$dir/d.img" "$@"
	head -c 1000000 /dev/zero >"$dir/d.img"
	refused "zeros" "no partition table" "$dir/d.img" "$@"
	refused "a folder" "is not a file" "$dir" "$@"
	xz -0 -k -c "$dir/plain.img" >"$dir/d.img"
	refused "compressed by xz" "xz -dk" "$dir/d.img" "$@"
	gzip -1 -c "$dir/plain.img" >"$dir/d.img"
	refused "compressed by gzip" "gzip -dk" "$dir/d.img" "$@"
	head -c $((root + 9000000)) "$dir/mbr.img" >"$dir/d.img"
	refused "truncated" "truncated" "$dir/d.img" "$@"
	head -c 9000000 "$dir/plain.img" >"$dir/d.img"
	refused "a file system that is truncated" "truncated" "$dir/d.img" "$@"
	damaged mbr $((446 + 16 + 12)) '\377\377\377\377'
	refused "a huge partition" "partition table is damaged" "$dir/d.img" "$@"
	damaged mbr $((446 + 8)) '\001\050'
	refused "partitions that overlap" "overlap" "$dir/d.img" "$@"
	damaged gpt 600 '\001'
	refused "GPT: wrong CRC" "wrong CRC" "$dir/d.img" "$@"
	damaged gpt 1060 '\001'
	refused "GPT: wrong CRC of the entries" "wrong CRC" "$dir/d.img" "$@"
	damaged gpt 512 'X'
	refused "GPT: none" "no GPT" "$dir/d.img" "$@"
	damaged mbr $((root + 1080)) 'X'
	refused "no ext4" "ext4 alone" "$dir/d.img" "$@"
	damaged mbr $((root + 1024 + 96)) '\306'
	refused "not unmounted" "not unmounted" "$dir/d.img" "$@"
	damaged mbr $((root + 1024 + 99)) '\100'
	refused "an unknown feature" "feature" "$dir/d.img" "$@"
	damaged mbr $((root + 1024 + 8192)) 'XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX'
	refused "a damaged file system" "damaged" "$dir/d.img" "$@"
	refused "another partition" "partition 1 .* has no ext4" "$dir/mbr.img" "$@" --partition 1
	cp "$dir/mbr.img" "$dir/d.img"
	printf 'rm /usr/lib/systemd/systemd\n' | debugfs -w -f - "$dir/d.img?offset=$root" >/dev/null 2>&1
	refused "no systemd" "no systemd" "$dir/d.img" "$@"
	cp "$dir/mbr.img" "$dir/d.img"
	printf 'rmdir /usr/local/bin\ncd /usr/local\nwrite %s bin\n' "$dir/own.conf" | debugfs -w -f - "$dir/d.img?offset=$root" >/dev/null 2>&1
	refused "a file in place of a folder" "/usr/local/bin as something else" "$dir/d.img" "$@"
	refused "another architecture" "is for arm64" "$dir/mbr.img" --root "$dir/arm64.tar.gz" --model "$dir/camera.onnx"
	refused "missing packages" "lacks packages .*: libjansson4 libuv1\." "$dir/mbr.img" --root "$dir/needs.tar.gz" --model "$dir/camera.onnx"
	refused "another tarball" "not what make tarball makes" "$dir/mbr.img" --root "$dir/camera.onnx" --model "$dir/camera.onnx"
	refused "a model that is none" "not an ONNX\|ONNX" "$dir/mbr.img" --root "$dir/a.tar.gz" --model "$dir/own.conf"
	refused "no model" "no model" "$dir/mbr.img" --root "$dir/a.tar.gz"
	refused "a pack that is none" "pack" "$dir/mbr.img" "$@" --pack "$dir/own.conf"
	refused "a pack of another class" "is for boards of class" "$dir/mbr.img" "$@" --pack "$dir/seed.seg" --class 00000000000000000000000000000000
	printf '[idle]\nslice = much\n' >"$dir/wrong.conf"
	refused "a configuration with a mistake" "/etc/hone/honed.conf:2" "$dir/mbr.img" "$@" --config "$dir/wrong.conf"
	refused "no tarball" "missing --root" "$dir/mbr.img" --model "$dir/camera.onnx"
	cp "$dir/mbr.img" "$dir/copy.img"
	check "IN as OUT is refused" fails usual "$dir/copy.img" "$dir/copy.img"
	check "another file as OUT is refused" fails usual "$dir/mbr.img" "$dir/own.conf"
	check "it is as it was" cmp "$dir/copy.img" "$dir/mbr.img"
	rm -f "$dir/copy.img"
}
# A file system without room: the error says how much is missing, and --spare makes room.
no_room() {
	for kind in mbr gpt plain; do
		cp "$dir/$kind.img" "$dir/$kind-full.img"
		head -c 30000000 /dev/urandom >"$dir/fill"
		printf 'write %s fill\n' "$dir/fill" | debugfs -w -f - "$dir/$kind-full.img?offset=$(offset $kind)" >/dev/null 2>&1
		rm "$dir/fill"
		e2fsck -fy "$dir/$kind-full.img?offset=$(offset $kind)" >/dev/null 2>&1
		[ $kind != mbr ] || refused "no room" "lacks [0-9]* bytes" "$dir/$kind-full.img" --root "$dir/a.tar.gz" --model "$dir/camera.onnx"
		check "$kind: --spare makes room" usual "$dir/$kind-full.img" "$dir/$kind-2.img" --spare 4M
		check "$kind: that is sound" sound "$dir/$kind-2.img"
		check "$kind: so much is free" free_kib "$dir/$kind-2.img" 4096
		check "$kind: sfdisk knows that image" knows "$dir/$kind-2.img"
		usual "$dir/$kind-2.img" "$dir/$kind-3.img" --spare 4M
		check "$kind: it grows once" cmp "$dir/$kind-2.img" "$dir/$kind-3.img"
		rm -f "$dir/$kind-full.img" "$dir/$kind-2.img" "$dir/$kind-3.img"
	done
}
free_kib() { [ "$(inside "$1" show_super_stats | awk '/^Free blocks:/ { f = $3 } /^Block size:/ { b = $3 } END { print int(f * b / 1024) }')" -ge "$2" ]; }
knows() { case $1 in *plain*) ;; *) sfdisk --verify "$1" && ! sfdisk -l "$1" 2>&1 | grep -i 'corrupt\|mismatch' ;; esac; }
# Damaged images: whatever happens, hone image ends with an error or an image that is sound, IN stays, and nothing else is left.
fuzz() { # how many
	n=0 refusals=0
	while [ $n -lt "$1" ]; do
		n=$((n + 1))
		kind=$(echo 'mbr gpt plain' | cut -d ' ' -f $((n % 3 + 1)))
		cp "$dir/$kind.img" "$dir/$kind-f.img"
		awk -v seed="${SEED:-1}" -v n=$n -v o="$(offset $kind)" -v size="$(stat -c %s "$dir/$kind.img")" 'BEGIN { srand(seed * 100003 + n); rand()
			where = int(rand() * 5)
			if (where == 4) { print "cut", int(rand() * size); exit }
			for (i = 0; i <= int(rand() * 4); i++) {
				at = where == 0 ? 440 + int(rand() * 72) : where == 1 ? 512 + int(rand() * 400) : where == 2 ? o + 1024 + int(rand() * 264) : o + 1024 + int(exp(rand() * log(8000000)))
				print "put", at, sprintf("\\%03o", int(rand() * 256))
			} }' >"$dir/damage"
		while read -r how at byte; do
			if [ "$how" = cut ]; then truncate -s "$at" "$dir/$kind-f.img"; else put "$dir/$kind-f.img" "$at" "$byte"; fi
		done <"$dir/damage"
		sum=$(cksum <"$dir/$kind-f.img")
		rm -f "$dir/none-$kind.img"
		usual "$dir/$kind-f.img" "$dir/none-$kind.img"
		status=$?
		if [ $status = 0 ]; then
			check "damage $n: what was written is sound" sound "$dir/none-$kind.img"
		else
			refusals=$((refusals + 1))
			check "damage $n: a plain error (status $status)" grep -q '^hone: error: ' "$dir/err"
			check "damage $n: it is one line of hone's" [ "$(wc -l <"$dir/err")" = 1 -a $status -le 2 ]
			check "damage $n: no file is left" [ ! -e "$dir/none-$kind.img" ]
		fi
		rm -f "$dir/none-$kind.img"
		check "damage $n: nothing is left behind" clean
		check "damage $n: IN stays" [ "$(cksum <"$dir/$kind-f.img")" = "$sum" ]
	done
	echo "image: of $1 damaged images $refusals were refused"
}

system "$dir/system" /bin/true
cp /bin/true "$dir/arm"
put "$dir/arm" 18 '\267'
tarball "$dir/a.tar.gz" /bin/true "bin/honed: libc6"
tarball "$dir/arm64.tar.gz" "$dir/arm" "bin/honed: nothing"
tarball "$dir/needs.tar.gz" /bin/true "bin/honed: libc6 libuv1 libjansson4"
images
"$build/tests/boots" net 1 "$dir/camera.onnx" "$dir/x.npy" || exit 1
"$build/hone" tune "$dir/camera.onnx" --budget 2s --rigor estimate --threads 1 --cache "$dir/tuned" -q >/dev/null 2>&1
"$build/hone" pack --cache "$dir/tuned" -o "$dir/seed.seg" -q >/dev/null || exit 1
good_images
again
hostile_texts
others
endings
bad_images
no_room
fuzz "${FUZZ:-9}"
echo "$good passed, $bad failed, $skipped skipped"
[ $bad = 0 ]
