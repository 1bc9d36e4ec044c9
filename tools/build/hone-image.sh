#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The part of `hone image` that reads and writes images; it is installed as hone-image, and `hone image` starts it.
#	hone-image --in=IN --out=OUT --root=TARBALL [--model=NAME=FILE]... [--set=NAME=KEY=VALUE]... [--pack=FILE]
#		[--pack-arch=ARCH] [--config=FILE] [--budget=TIME] [--app=UNIT]... [--partition=N]
#		[--spare=BYTES] [--honed=FILE]
# It needs a shell, coreutils, tar, gzip, and debugfs and e2fsck of e2fsprogs; neither root nor a loop device nor a mount.
#
# Standard output is for `hone image`, a line for each fact: "error TEXT" (the last line; the exit status is 1 then), "note TEXT",
# "partition N", "arch NAME", "files N" (files and links of this run), "written N", "removed N".
#
# IN is only read. The result is a copy of it, written beside OUT and renamed at the end. debugfs and e2fsck open the root file system
# inside the image by its offset. debugfs says nothing of failures by its exit status, so everything that was written is read
# back and compared, and e2fsck checks the file system before and after. What the image has already is not written again:
# an image that has all comes out byte for byte. Nothing of an image is trusted: numbers are checked before they are used, and
# names that lie in it are never used as names on this machine. dash's echo turns \n of a text into a line, so values are printed by
# printf alone, and debugfs gets no path that has other characters than those of plain().
#
# Bytes depend on the inputs alone: times that are written are SOURCE_DATE_EPOCH, else the last write time of the root file system.
# (After --spare the copies of the superblock have the time at which resize2fs ran.)
LC_ALL=C
export LC_ALL
mask=$(umask)
umask 022
in='' out='' packarch='' tarball='' pack='' config='' budget='' partition='' honed='' spare=0 grow=0 tmp='' part=''
models='' sets='' apps='' # a line each
list=usr/local/share/hone/image.list # what hone image has written, a path on each line
seeds=usr/share/hone/cache modeldir=usr/share/hone/models

say() { printf '%s\n' "$*"; }
# A line for hone: control characters, which a text from an image may have, become '?', and hone takes lines of at most 4095 bytes.
tell() { printf '%s' "$*" | tr '\000-\037\177' '?' | cut -b 1-4000; }
die() { # text
	tell "error $*"
	exit 1
}
note() { tell "note $*"; }
end() {
	[ -z "$tmp" ] || rm -rf "$tmp"
	[ -z "$part" ] || rm -f "$part"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 141' PIPE
trap 'exit 143' TERM HUP

for word in "$@"; do
	case $word in
	--in=*) in=${word#*=} ;;
	--out=*) out=${word#*=} ;;
	--root=*) tarball=${word#*=} ;;
	--model=*=*) models="$models${word#*=}
" ;;
	--set=*=*=*) sets="$sets${word#*=}
" ;;
	--pack=*) pack=${word#*=} ;;
	--config=*) config=${word#*=} ;;
	--budget=*) budget=${word#*=} ;;
	--app=*) apps="$apps${word#*=}
" ;;
	--partition=*) partition=${word#*=} ;;
	--honed=*) honed=${word#*=} ;;
	--spare=*) spare=${word#*=} ;;
	--pack-arch=*) packarch=${word#*=} ;;
	*) die "hone-image: unknown argument $word: start it as hone image" ;;
	esac
done
PATH=$PATH:/usr/sbin:/sbin
missing=
for need in debugfs:e2fsprogs e2fsck:e2fsprogs od:coreutils timeout:coreutils tar:tar gzip:gzip awk:mawk cmp:diffutils; do
	command -v ${need%%:*} >/dev/null || missing="$missing ${need##*:}"
done
[ -z "$missing" ] || die "programs are missing: apt-get install$(say "$missing" | tr ' ' '\n' | sort -u | tr '\n' ' ' | sed 's/^ */ /; s/ $//')"
tmp=$(mktemp -d "${TMPDIR:-/tmp}/hone-image-XXXXXX") || die "cannot make a folder in ${TMPDIR:-/tmp}: set TMPDIR to one that can be written"
case $tmp in *[!A-Za-z0-9@._+/-]*) die "the path $tmp has characters that debugfs does not take: set TMPDIR to another folder" ;; esac

# ---- numbers of a file ----
# Little-endian number of 1, 2, 4 or 8 bytes at an offset; a file that is too short, or a number beyond 10^18, gives 10^18, which
# every check below refuses.
num() { # file, offset, bytes
	n=$(od -An -v --endian=little -j "$2" -N "$3" -t "u$3" "$1" 2>/dev/null | tr -d ' \n')
	case $n in '' | ???????????????????*) n=1000000000000000000 ;; esac
	say "$n"
}
hex() { # file, offset, bytes
	od -An -v -j "$2" -N "$3" -t x1 "$1" 2>/dev/null | tr -d ' \n'
}
bytes() { # file, offset, bytes
	dd if="$1" iflag=skip_bytes,count_bytes skip="$2" count="$3" bs=65536 status=none
}
crc() { # CRC-32 of standard input: gzip writes it behind the data
	gzip -1 -c | tail -c 8 | od -An --endian=little -N 4 -t u4 | tr -d ' \n'
}

# ---- the image and its partitions ----
look_at_input() {
	[ -f "$in" ] || die "$in is not a file: name the image file of a Debian or Raspberry Pi OS system"
	[ -r "$in" ] || die "$in cannot be read"
	size=$(stat -L -c %s "$in")
	case $(hex "$in" 0 6) in
	fd377a585a00) die "$in is compressed: xz -dk '$in' unpacks it" ;;
	1f8b*) die "$in is compressed: gzip -dk '$in' unpacks it" ;;
	28b52ffd*) die "$in is compressed: zstd -d '$in' unpacks it" ;;
	425a68*) die "$in is compressed: bzip2 -dk '$in' unpacks it" ;;
	504b0304*) die "$in is a ZIP archive: unzip '$in' unpacks it" ;;
	514649fb*) die "$in is an image of QEMU (qcow2): qemu-img convert -O raw '$in' disk.img makes a plain one" ;;
	3aff26ed*) die "$in is a sparse image of Android: simg2img '$in' disk.img makes a plain one" ;;
	esac
	[ "$size" -ge 65536 ] || die "$in has $size bytes: that is not an image of a disk"
}
is_ext() { [ "$(hex "$in" $(($1 + 1080)) 2)" = 53ef ]; } # offset of a file system
# Appends "N FIRST BYTES" of a partition to $tmp/parts after checking that it lies in the file.
add_part() { # number, first sector, sectors
	[ "$2" -gt 0 ] && [ "$3" -gt 0 ] || die "partition $1 of $in begins at sector $2 and has $3 sectors: the partition table is damaged"
	[ "$2" -lt 1000000000000 ] && [ "$3" -lt 1000000000000 ] && [ $((($2 + $3) * 512)) -le "$size" ] ||
		die "partition $1 of $in ends at sector $(sum "$2" "$3"), but the file has $((size / 512)): it is truncated (download or unpack it again), or its partition table is damaged"
	say "$1 $(($2 * 512)) $(($3 * 512))" >>"$tmp/parts"
}
sum() { if [ "$1" -lt 1000000000000 ] && [ "$2" -lt 1000000000000 ]; then say $(($1 + $2)); else say "beyond 10^12"; fi; }
read_gpt() {
	[ "$(hex "$in" 512 8)" = 4546492050415254 ] || die "$in has a protective MBR and no GPT at sector 1: it is damaged, or has sectors of 4096 bytes, which hone image does not read"
	head=$(num "$in" 524 4) at=$(num "$in" 584 8) count=$(num "$in" 592 4) each=$(num "$in" 596 4)
	[ "$head" -ge 92 ] && [ "$head" -le 512 ] || die "the GPT of $in is damaged: a header of $head bytes"
	{ bytes "$in" 512 16; printf '\0\0\0\0'; bytes "$in" 532 $((head - 20)); } >"$tmp/gpt"
	[ "$(crc <"$tmp/gpt")" = "$(num "$in" 528 4)" ] || die "the GPT of $in is damaged: wrong CRC of its header (sgdisk --verify '$in')"
	[ "$count" -le 1024 ] && [ "$each" -ge 128 ] && [ "$each" -le 4096 ] && [ "$at" -lt 1000000000000 ] && [ $((at * 512 + count * each)) -le "$size" ] ||
		die "the GPT of $in is damaged: $count entries of $each bytes at sector $at"
	bytes "$in" $((at * 512)) $((count * each)) >"$tmp/gpt"
	[ "$(crc <"$tmp/gpt")" = "$(num "$in" 600 4)" ] || die "the GPT of $in is damaged: wrong CRC of its entries (sgdisk --verify '$in')"
	i=0
	while [ $i -lt "$count" ]; do
		if [ "$(hex "$tmp/gpt" $((i * each)) 16)" != 00000000000000000000000000000000 ]; then
			first=$(num "$tmp/gpt" $((i * each + 32)) 8) last=$(num "$tmp/gpt" $((i * each + 40)) 8)
			[ "$last" -ge "$first" ] || die "partition $((i + 1)) of $in ends before it begins: the partition table is damaged"
			add_part $((i + 1)) "$first" $((last - first + 1))
		fi
		i=$((i + 1))
	done
}
read_partitions() {
	: >"$tmp/parts"
	types=
	if [ "$(hex "$in" 510 2)" = 55aa ]; then
		for i in 1 2 3 4; do types="$types $(num "$in" $((446 + (i - 1) * 16 + 4)) 1)"; done
	fi
	case " $types " in
	*" 238 "*) read_gpt ;;
	"  " | *" 0 0 0 0 "*)
		is_ext 0 || die "$in is not an image that hone image knows: no partition table (MBR or GPT), and no ext4 file system without one"
		say "0 0 $size" >"$tmp/parts" ;;
	*)
		i=1
		for type in $types; do
			[ "$type" = 0 ] || add_part $i "$(num "$in" $((446 + (i - 1) * 16 + 8)) 4)" "$(num "$in" $((446 + (i - 1) * 16 + 12)) 4)"
			i=$((i + 1))
		done ;;
	esac
	twice=$(sort -k 2n "$tmp/parts" | awk '$2 < end { print number " and " $1; exit } { number = $1; end = $2 + $3 }')
	[ -z "$twice" ] || die "partitions $twice of $in overlap: the partition table is damaged"
}

# ---- a file system ----
# Memory and time of these programs are bounded: an image from anywhere may make them run wild. In the foreground Ctrl-C ends them, too.
guarded() { (ulimit -v 8000000 2>/dev/null; exec timeout --foreground 1800 "$@"); }
# A file of the image may claim any size: no more than 4 GB of it are read.
ask() { (ulimit -f 8388608; guarded debugfs -f - "$1?offset=$off" 2>>"$tmp/debugfs"); } # image; commands on standard input; reads only
plain() { case $1 in '' | *[!A-Za-z0-9@._+/-]*) return 1 ;; esac; } # whether a path may be a word of a command of debugfs
has() { # type, path: whether the root of the image has such a file
	plain "$2" && say "stat \"$2\"" | ask "$tmp/in" | grep -q "^Inode: .*Type: $1 "
}
dump() { # path, file
	: >"$2"
	! plain "$1" || say "dump \"$1\" $2" | ask "$tmp/in" >/dev/null
}
# What of an ext4 file system must hold before debugfs and e2fsck look at it.
check_numbers() { # partition, offset, bytes
	block=$(num "$in" $(($2 + 1024 + 24)) 4)
	[ "$block" -le 6 ] || die "the file system in partition $1 of $in is damaged: its superblock has an impossible block size"
	block=$((1024 << block))
	blocks=$(num "$in" $(($2 + 1024 + 4)) 4)
	if [ $(($(num "$in" $(($2 + 1024 + 96)) 4) & 128)) != 0 ]; then
		[ "$(num "$in" $(($2 + 1024 + 336)) 4)" = 0 ] || die "the file system in partition $1 of $in is damaged: it claims to have more than 2^32 blocks"
	fi
	[ $((blocks * block)) -le "$3" ] ||
		die "the file system in partition $1 of $in claims $((blocks * block)) bytes, but the partition has $3: the image is truncated or damaged"
}
is_root() { # partition, offset, bytes
	is_ext "$2" || return 1
	[ $(($2 + 2048)) -le $(($2 + $3)) ] || return 1
	[ -z "$partition" ] || [ "$partition" = "$1" ] || return 1
	check_numbers "$1" "$2" "$3"
	[ -z "$partition" ] || return 0
	off=$2
	has directory /etc && { has regular /usr/lib/os-release || has symlink /etc/os-release || has regular /etc/os-release; }
}
find_root() {
	roots=0 found='' exts=''
	while read -r n first bytes; do
		! is_ext "$first" || exts="$exts $n"
		is_root "$n" "$first" "$bytes" || continue
		roots=$((roots + 1)) found="$n $first $bytes"
	done <"$tmp/parts"
	all=$(awk '{ printf "%s%s", (NR > 1 ? ", " : ""), $1 }' "$tmp/parts")
	[ -z "$partition" ] || [ $roots = 1 ] || die "partition $partition of $in has no ext4 file system (partitions: ${all:-none}; with ext4:${exts:- none})"
	[ -n "$exts" ] || die "$in has no partition with an ext4 file system (partitions: ${all:-none}): hone image writes to ext4 alone"
	[ $roots != 0 ] || die "no ext4 file system of $in has an /etc/os-release (looked at partition$exts): --partition N says which one is the root$(sed -n 's/^[^:]*: \(.*\) while trying to open .*/; debugfs cannot open one: \1/p' "$tmp/debugfs" | tail -n 1)"
	[ $roots = 1 ] || die "$in has $roots root file systems: --partition N says which one is meant"
	root=${found%% *} off=${found#* } room=${found##* }
	off=${off% *}
	say "partition $root"
	check_numbers "$root" "$off" "$room"
	[ $(($(num "$in" $((off + 1024 + 96)) 4) & 4)) = 0 ] ||
		die "the root file system of $in was not unmounted: its journal has writes to replay. Boot the board and shut it down before the card is read, or replay them in a copy: e2fsck -f 'COPY?offset=$off'"
	guarded e2fsck -fn "$tmp/in?offset=$off" >"$tmp/fsck" 2>&1
	status=$?
	if [ $status != 0 ]; then
		grep -q 'unsupported feature' "$tmp/fsck" && die "the file system of $in has features that e2fsck of this machine does not know ($(grep -m 1 'unsupported feature' "$tmp/fsck" | sed "s|^.*/in?offset=[0-9]* *||")): install a newer e2fsprogs"
		die "the root file system of $in is damaged (e2fsck ended with status $status): $(grep -vE '^(e2fsck |Pass |$)' "$tmp/fsck" | sed "s|$tmp/in?offset=$off|the file system|" | head -n 1 | cut -c 1-160). Mend a copy: e2fsck -f 'COPY?offset=$off'"
	fi
}

# ---- what goes into the image: $tmp/root ----
stage() {
	[ -f "$tarball" ] || die "$tarball is not a file: make tarball BOARD=NAME makes one"
	stage=$tmp/root
	mkdir "$stage"
	tar -C "$stage" --no-same-owner -xzf "$tarball" 2>"$tmp/tar" || die "$tarball is not what make tarball makes: $(head -n 1 "$tmp/tar")"
	# Links lead to a name beside them: others might lead out of the folder.
	odd=$(find "$stage" -mindepth 1 ! -type d ! -type f ! -type l -print -quit)$(find "$stage" -lname '*[!A-Za-z0-9@._+-]*' -print -quit)$(find "$stage" -mindepth 1 -name '*[!A-Za-z0-9@._+-]*' -print -quit)$(find "$stage" -mindepth 1 -maxdepth 2 ! -path "$stage/usr" ! -path "$stage/usr/local" -print -quit)
	[ -z "$odd" ] || die "$tarball is not what make tarball makes: it has ${odd#"$stage"}"
	for f in hone honed hone-worker; do [ -f "$stage/usr/local/bin/$f" ] || die "$tarball is not what make tarball makes: no usr/local/bin/$f"; done
	units=usr/local/lib/systemd/system
	[ -f "$stage/$units/hone-boot.service" ] || die "$tarball is not what make tarball makes: no $units/hone-boot.service"
	mkdir -p "$stage/etc/hone/honed.conf.d" "$stage/etc/systemd/system" "$stage/$modeldir" "$stage/${list%/*}"
	stage_config
	stage_units
	if [ -n "$pack" ]; then
		mkdir -p "$stage/$seeds"
		cp "$pack" "$stage/$seeds/image.seg" || die "$pack cannot be copied"
	fi
	find "$stage" ! -type l -exec chmod u=rwX,go=rX {} +
	(cd "$stage" && find . ! -type d | sed 's/^\.//' | sort) >"$tmp/list"
	say "/$list" >>"$tmp/list"
	sort -o "$tmp/list" "$tmp/list"
	cp "$tmp/list" "$stage/$list"
	chmod 644 "$stage/$list"
	say "files $(wc -l <"$tmp/list" | tr -d ' ')"
}
# honed.conf: --config, else that of the image if hone image did not write it, else the example. What this command line says is in a
# drop-in, which is read after it.
stage_config() {
	conf=$stage/etc/hone/honed.conf drop=$stage/etc/hone/honed.conf.d/image.conf
	if [ -n "$config" ]; then
		cp "$config" "$conf" 2>/dev/null || die "$config cannot be read"
	elif has regular /etc/hone/honed.conf && ! grep -qx /etc/hone/honed.conf "$tmp/former"; then
		dump /etc/hone/honed.conf "$conf"
	else
		cp "$stage/usr/local/share/doc/hone/examples/honed.conf" "$conf" 2>/dev/null || die "$tarball is not what make tarball makes: no example of honed.conf"
	fi
	{
		echo "# Written by hone image."
		[ -z "$budget" ] || printf '[boot]\nbudget = %s\n' "$budget"
		say "$models" | while read -r model; do
			name=${model%%=*}
			[ -n "$name" ] || continue
			printf '[model %s]\npath = /%s/%s.onnx\n' "$name" "$modeldir" "$name"
			say "$sets" | sed -n "s/^$name=\([a-z]*\)=\(.*\)/\1 = \2/p"
		done
	} >"$drop"
	say "$models" | while IFS= read -r model; do
		name=${model%%=*} file=${model#*=}
		[ -z "$name" ] || cp "$file" "$stage/$modeldir/$name.onnx" 2>/dev/null || die "$file cannot be copied to ${TMPDIR:-/tmp} (is it full? TMPDIR names another folder)"
	done >"$tmp/failed"
	[ ! -s "$tmp/failed" ] || { cat "$tmp/failed"; exit 1; }
}
wants() { # target, unit, where the unit lies
	mkdir -p "$stage/etc/systemd/system/$1.wants"
	ln -sf "$3/$2" "$stage/etc/systemd/system/$1.wants/$2"
}
# Enables what systemctl enable would: the links that [Install] asks for.
stage_units() {
	for u in hone-boot.service honed.service honed.socket hone-worker.socket; do
		target=$(sed -n 's/^WantedBy=//p' "$stage/$units/$u" 2>/dev/null)
		case $target in multi-user.target | sockets.target) ;; *) die "$tarball is not what make tarball makes: $u is for the target '$target'" ;; esac
		wants "$target" "$u" "/$units"
	done
	# At the first boot, beside systemd-sysusers: applications find libhone.so.1 by the linker's cache.
	cat >"$stage/etc/systemd/system/hone-ldconfig.service" <<'EOF'
# Written by hone image.
[Unit]
Description=Linker's cache with libhone
Documentation=man:ldconfig(8) man:hone-image(1)
DefaultDependencies=no
Conflicts=shutdown.target
After=local-fs.target
Before=sysinit.target shutdown.target systemd-update-done.service
ConditionNeedsUpdate=/etc

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/sbin/ldconfig
TimeoutSec=90s
EOF
	wants sysinit.target hone-ldconfig.service ..
	say "$apps" | while read -r app; do
		[ -n "$app" ] || continue
		mkdir -p "$stage/etc/systemd/system/$app.d"
		printf '# Written by hone image: the application starts once the boot box has ended, however it ended.\n[Unit]\nWants=hone-boot.service\nAfter=hone-boot.service\n' >"$stage/etc/systemd/system/$app.d/hone.conf"
	done
}
# What an earlier hone image wrote. Lines that it cannot have written are left out.
read_former() {
	: >"$tmp/former"
	has regular "/$list" || return 0
	dump "/$list" "$tmp/dumped"
	head -c 1000000 "$tmp/dumped" | grep -E '^/(usr/local|usr/share/hone|etc/hone|etc/systemd/system)(/[A-Za-z0-9@._+-]+)+$' | grep -vE '/\.\.?(/|$)' | sort -u | head -n 5000 >"$tmp/former"
}

# ---- whether the parts fit together ----
machine() { # ELF file
	[ "$(hex "$1" 0 4)" = 7f454c46 ] || return 0
	case $(hex "$1" 4 1)-$(num "$1" 18 2) in
	02-62) echo amd64 ;;
	02-183) echo arm64 ;;
	01-40) echo armhf ;;
	01-3) echo i386 ;;
	02-243) echo riscv64 ;;
	*) say "another machine ($(num "$1" 18 2))" ;;
	esac
}
check_machine() {
	dump /usr/lib/systemd/systemd "$tmp/init"
	[ -s "$tmp/init" ] || dump /lib/systemd/systemd "$tmp/init"
	[ -s "$tmp/init" ] || die "$in has no systemd in its root (partition $root): the boot box is a unit of systemd"
	theirs=$(machine "$tmp/init") ours=$(machine "$stage/usr/local/bin/honed")
	[ -n "$theirs" ] || die "the systemd in $in is no program"
	[ "$theirs" = "$ours" ] || die "$tarball is for ${ours:-no machine}, but the system in $in is for $theirs: make tarball BOARD=NAME with another board"
	[ -z "$packarch" ] || [ "$packarch" = "$ours" ] || die "$pack is for boards of $packarch, but $tarball and the system in $in are for $ours: the board would not use it"
	say "arch $ours"
	rm -f "$tmp/init"
}
# Debian packages whose libraries a file of the tarball needs, and which the image does not have: those of the box must be there.
check_packages() {
	needs=$stage/usr/local/share/doc/hone/NEEDS
	dump /var/lib/dpkg/status "$tmp/status"
	[ -s "$tmp/status" ] && [ -f "$needs" ] || return 0
	awk '/^Package: / { name = $2 } /^Status: [a-z]+ ok installed/ { print name }' "$tmp/status" >"$tmp/has"
	lacks=$(awk 'FILENAME == ARGV[1] { has[$1]; next } /^bin\/(hone|honed|hone-worker):/ { for (i = 2; i <= NF; i++) if ($i != "nothing" && !($i in has)) print $i }' "$tmp/has" "$needs" | sort -u | tr '\n' ' ')
	[ -z "$lacks" ] || die "the image lacks packages that the programs in $tarball need: ${lacks% }. Install them in the image, or make the tarball without DYNAMIC=1: its programs need none"
	awk 'FILENAME == ARGV[1] { has[$1]; next } { line = ""; for (i = 2; i <= NF; i++) if ($i != "nothing" && !($i in has)) line = line " " $i; if (line) { sub(/:$/, "", $1); print $1 " needs packages that the image does not have:" line } }' "$tmp/has" "$needs" |
		while read -r line; do note "$line"; done
}
# honed reads the configuration here, where paths of the board would name files of this machine: they become paths below
# /proc/0, where nothing can be, and those of models that this run puts into the image become paths of the staged files. Both are
# short, as honed takes lines of at most 197 bytes.
check_config() {
	[ -n "$honed" ] || return 0
	ln -s "$stage/$modeldir" "$tmp/m"
	mkdir -p "$tmp/etc/honed.conf.d" "$tmp/run"
	echo 'ls -p /etc/hone/honed.conf.d' | ask "$tmp/in" | awk -F / '$3 ~ /^10/ && $6 ~ /^[A-Za-z0-9_-][A-Za-z0-9._-]*\.conf$/ { print $6 }' | head -n 64 | while read -r name; do
		grep -qxF "/etc/hone/honed.conf.d/$name" "$tmp/former" || dump "/etc/hone/honed.conf.d/$name" "$tmp/etc/honed.conf.d/$name"
	done
	cp "$conf" "$tmp/etc/honed.conf"
	cp "$drop" "$tmp/etc/honed.conf.d/image.conf"
	sed -i -E "s#^([ 	]*(path|cache|ca|root|token)[ 	]*[=:][ 	]*)/#\1/proc/0/#
		s#^([ 	]*path[ 	]*[=:][ 	]*)/proc/0/$modeldir/([A-Za-z0-9_-]+\.onnx)([ 	]|\$)#\1$tmp/m/\2\3#" "$tmp/etc/honed.conf" "$tmp"/etc/honed.conf.d/*.conf
	"$honed" --check --config "$tmp/etc/honed.conf" --run "$tmp/run" </dev/null >"$tmp/mistakes" 2>"$tmp/words" && status=0 || status=$?
	sed -i "s|$tmp/etc/|/etc/hone/|g; s|$tmp/m/|/$modeldir/|g; s|/proc/0/|/|g" "$tmp/mistakes" "$tmp/words"
	count=$(sed -n 's|^/etc/hone/honed.conf: \([0-9]*\) model.*|\1|p' "$tmp/mistakes")
	# Models that lie elsewhere in the image, or come with the application; files of [sync].
	absent=': model [^:]*: /.*: No such file or directory$|: \[sync\] [a-z]* = /.*: No such file or directory; put the file there'
	# (honed's messages shorten paths.)
	sed -nE 's#^[ 	]*(path|ca|root|token)[ 	]*[=:][ 	]*/proc/0(/.*)$#\2#p' "$tmp/etc/honed.conf" "$tmp"/etc/honed.conf.d/*.conf | sed -E 's/[[:space:]]+;.*//; s/[[:space:]]+$//' |
		grep -v "^/$modeldir/[^/]*$" | sort -u | while read -r path; do
		plain "$path" || { note "honed.conf names $path; hone image does not look for paths with such characters in the image"; continue; }
		has regular "$path" || note "honed.conf names $path, which the image does not have (yet): honed waits for models that are missing"
	done
	# honed looks at files of boards, too, but at those of this machine.
	bad=$(grep -E '^/etc/hone/honed\.conf(\.d/[^:]*)?:' "$tmp/mistakes" | grep -vE ': [0-9]+ models?( |$)' | grep -vE "$absent" | head -n 1)
	[ -z "$bad" ] || die "the configuration is refused by honed: $bad"
	[ $status = 0 ] || grep -qE ': No such file or directory$|: [0-9]+ model' "$tmp/mistakes" || die "the configuration is refused by honed: $(head -n 1 "$tmp/words")"
	[ "${count:-0}" != 0 ] || die "no model: --model MODEL.onnx gives one, or a section [model NAME] in the file of --config"
}

# ---- comparing and writing ----
# Prints "new PATH" or "other PATH OLDBLOCKS" for each file and link of $tmp/list that the image does not have as it is staged, and
# "dir PATH" for folders that it lacks, and "clash PATH" where one is in the place of the other. Old sizes are in units of 512 bytes.
differences() { # image
	find "$stage" -mindepth 1 -printf '/%P %y %s %m %l\n' | sort >"$tmp/staged"
	sed 's/ .*//; s/.*/stat "&"/' "$tmp/staged" | ask "$1" | awk '
		/^debugfs: stat "/ { path = $0; sub(/^debugfs: stat "/, "", path); sub(/"$/, "", path); next }
		/^Inode: / { type = mode = "?"; for (i = 1; i < NF; i++) { if ($i == "Type:") type = $(i + 1); if ($i == "Mode:") mode = $(i + 1) } }
		/^User: / { for (i = 1; i < NF; i++) { if ($i == "User:") user = $(i + 1); if ($i == "Group:") group = $(i + 1); if ($i == "Size:") size = $(i + 1) } }
		/^Links: / { for (i = 1; i < NF; i++) if ($i == "Blockcount:") print path, type, mode, user ":" group, size + 0, $(i + 1) + 0 }
		/^Fast link dest: "/ { to = $0; sub(/^Fast link dest: "/, "", to); sub(/"$/, "", to); print path, "to", to }' >"$tmp/stats"
	awk 'FILENAME == ARGV[1] { if ($2 == "to") to[$1] = $3; else { type[$1] = $2; mode[$1] = $3; owner[$1] = $4; size[$1] = $5; blocks[$1] = $6 } next }
		{ p = $1 }
		$2 == "d" { if (!(p in type)) print "dir", p; else if (type[p] == "symlink") print "enter", p; else if (type[p] != "directory") print "clash", p; next }
		!(p in type) { print "new", p; next }
		type[p] == "directory" { print "clash", p; next }
		owner[p] != "0:0" || ($2 == "l" ? type[p] != "symlink" || to[p] != $5 : type[p] != "regular" || mode[p] != "0" $4 || size[p] != $3) { print "other", p, blocks[p]; next }
		$2 == "f" { print "same", p, blocks[p], ++n }' "$tmp/stats" "$tmp/staged" >"$tmp/first"
	rm -rf "$tmp/old" && mkdir "$tmp/old"
	awk -v to="$tmp/old/" '$1 == "same" { print "dump \"" $2 "\" " to $4 }' "$tmp/first" | ask "$1" >/dev/null
	while read -r how path had n; do
		case $how in
		same) cmp -s "$tmp/old/$n" "$stage$path" || say "other $path $had" ;;
		# A link in place of a folder may lead to one: debugfs follows it.
		enter) [ -n "$(say "ls -p \"$path/\"" | ask "$1" | grep '^/')" ] || say "clash $path" ;;
		*) say "$how $path $had" ;;
		esac
	done <"$tmp/first"
	rm -rf "$tmp/old"
}
plan() {
	differences "$tmp/in" >"$tmp/plan"
	clash=$(awk '$1 == "clash" { print $2; exit }' "$tmp/plan")
	[ -z "$clash" ] || die "$in has $clash as something else than hone needs there (a file in place of a folder, or the reverse): move it away"
	# What a former run wrote and this one does not.
	comm -23 "$tmp/former" "$tmp/list" >"$tmp/unlisted"
	# The target of a link may have lines that look like debugfs's own.
	sed 's/.*/stat "&"/' "$tmp/unlisted" | ask "$tmp/in" | awk '
		/^debugfs: stat "/ { path = $0; sub(/^debugfs: stat "/, "", path); sub(/"$/, "", path) }
		/^Inode: .*Type: (regular|symlink) / { print path }' | sort -u | comm -12 - "$tmp/unlisted" | sed 's/^/gone /' >>"$tmp/plan"
	! has regular /etc/.updated || [ ! -s "$tmp/plan" ] || echo "gone /etc/.updated" >>"$tmp/plan"
	check_room
	say "written $(grep -cE '^(new|other) ' "$tmp/plan")"
	say "removed $(grep '^gone ' "$tmp/plan" | grep -vc ' /etc/.updated$')"
}
# With --spare the root file system becomes larger where less would be left free.
check_room() {
	free=$(num "$in" $((off + 1024 + 12)) 4) nodes=$(num "$in" $((off + 1024 + 16)) 4)
	need=$(awk -v b="$block" 'FILENAME == ARGV[1] { size[$1] = $2 == "f" ? $3 : 1; next }
		$1 != "gone" { s += int((size[$2] + b - 1) / b) + int(size[$2] / b / 300) } END { print s + 8 }' "$tmp/staged" "$tmp/plan")
	freed=$(awk -v b="$block" '$1 == "other" { s += int($3 * 512 / b) } END { print s + 0 }' "$tmp/plan")
	new=$(grep -cE '^(new|dir) ' "$tmp/plan")
	[ "$new" -le "$nodes" ] || die "the root file system of $in has $nodes inodes left, and hone needs $new: take an image with more"
	lacks=$(((need - free - freed) * block + spare)) grow=0
	[ -s "$tmp/plan" ] || [ "$spare" != 0 ] || return 0
	[ $lacks -gt 0 ] || return 0
	[ "$spare" != 0 ] || die "the root file system of $in is too small: it lacks $lacks bytes. --spare 64M makes it larger in OUT, so that 64M are free"
	grow=$(((lacks * 17 / 16 >> 20) + 2)) # MiB; inodes and bitmaps of the new groups take a part
	[ "$root" = 0 ] || [ "$(sort -k 2n "$tmp/parts" | tail -n 1 | cut -d ' ' -f 1)" = "$root" ] || die "--spare: partition $root is not the last one of $in, so it cannot grow; make it larger with parted"
	for p in resize2fs:e2fsprogs sfdisk:fdisk; do command -v ${p%:*} >/dev/null || die "--spare needs ${p%:*}: apt-get install ${p#*:}"; done
}
# Makes the copy, its last partition and the file system there larger. resize2fs gets the file system in a file of its own, because
# it cuts a file to the file system's size.
grow_out() {
	large=$((room + (grow << 20)))
	truncate -s "$((off + large + (size - off - room)))" "$part" || die "no room for a larger image in $folder"
	if [ "$root" != 0 ]; then
		say ", $((large / 512))" | sfdisk -q -N "$root" "$part" >"$tmp/said" 2>&1 || die "sfdisk cannot make partition $root larger: $(tail -n 1 "$tmp/said")"
	fi
	bytes "$part" "$off" "$room" | dd of="$tmp/fs" bs=1M iflag=fullblock conv=sparse status=none
	truncate -s "$large" "$tmp/fs"
	guarded resize2fs -f "$tmp/fs" >"$tmp/said" 2>&1 || die "resize2fs cannot make the file system larger: $(tail -n 1 "$tmp/said")"
	dd if="$tmp/fs" of="$part" bs=1M seek="$off" oflag=seek_bytes conv=notrunc status=none || die "no room for a larger image in $folder"
	rm -f "$tmp/fs"
	fallocate -d "$part" 2>/dev/null
}
commands() { # the plan as commands of debugfs
	say "set_current_time @$epoch"
	awk '$1 == "gone" || $1 == "other" { print "rm \"" $2 "\"" }' "$tmp/plan"
	# Folders come before what lies in them, as they are sorted.
	awk -v stage="$stage" 'function at(p) { sub(/\/[^\/]*$/, "", p); return "cd \"" (p == "" ? "/" : p) "\"" } function base(p) { sub(/.*\//, "", p); return "\"" p "\"" }
		FILENAME == ARGV[1] { kind[$1] = $2; mode[$1] = $4; to[$1] = $5; next }
		$1 == "dir" { print at($2); print "mkdir " base($2); print "set_inode_field \"" $2 "\" mode 040755" }
		$1 == "new" || $1 == "other" {
			print at($2)
			if (kind[$2] == "l") print "symlink " base($2) " \"" to[$2] "\""
			else { print "write \"" stage $2 "\" " base($2); print "set_inode_field \"" $2 "\" mode 0100" mode[$2] }
			print "set_inode_field \"" $2 "\" uid 0"; print "set_inode_field \"" $2 "\" gid 0" }' "$tmp/staged" "$tmp/plan"
}
check_out() {
	case $out in */*) folder=${out%/*} ;; *) folder=. ;; esac
	[ -d "$folder/" ] || die "there is no folder $folder for $out"
	[ ! "$in" -ef "$out" ] || die "$out is the image itself, which stays as it is: write to another file"
	[ ! -e "$out" ] || [ -f "$out" ] || die "$out is not a file: write an image file, and flash that"
	[ -s "$out" ] || return 0
	# An image that hone image wrote is replaced, nothing else.
	(in=$out && look_at_input && read_partitions && ln -s "$(realpath "$out")" "$tmp/was" && while read -r n off bytes; do
		! is_ext "$off" || ! say "stat \"/$list\"" | ask "$tmp/was" | grep -q '^Inode: .*Type: regular ' || echo "was ours"
	done <"$tmp/parts") 2>/dev/null | grep -q '^was ours' || die "$out exists and is not an image that hone image wrote: name another file, or remove it"
}
write_out() {
	part=$(mktemp "$folder/.hone-image-XXXXXX") || die "cannot write into the folder $folder"
	cp --sparse=always --reflink=auto "$in" "$part" 2>"$tmp/said" || die "cannot copy $in: $(sed 's/^cp: //' "$tmp/said" | head -n 1)"
	ln -s "$(realpath "$part")" "$tmp/out"
	[ $grow = 0 ] || grow_out
	if [ -s "$tmp/plan" ] || [ $grow != 0 ]; then
		commands >"$tmp/commands"
		guarded debugfs -w -f "$tmp/commands" "$tmp/out?offset=$off" >"$tmp/said" 2>"$tmp/wrong"
		status=$?
		differences "$tmp/out" >"$tmp/rest"
		if [ -s "$tmp/rest" ] || [ $status != 0 ]; then
			die "debugfs could not write $(awk '{ print $2; exit }' "$tmp/rest") (status $status): $(grep -v '^debugfs [0-9]' "$tmp/wrong" | head -n 1)"
		fi
		guarded e2fsck -fn "$tmp/out?offset=$off" >"$tmp/fsck" 2>&1 ||
			die "after the write e2fsck finds the root file system damaged: $(grep -vE '^(e2fsck |Pass |$)' "$tmp/fsck" | head -n 1). Try a newer e2fsprogs"
	fi
	sync "$part" || die "cannot write $out: $folder has no room, or its disk has an error"
	# Who may not read IN may not read OUT: images may hold keys.
	chmod "$(printf %o $((0$(stat -L -c %a "$in") & ~0$mask & 0666 | 0400)))" "$part" || die "cannot set the mode of $part"
	mv -f "$part" "$out" || die "cannot rename to $out"
	part=''
	sync "$folder" || : # the image is complete; not every file system can sync a folder
}

look_at_input
ln -s "$(realpath "$in")" "$tmp/in"
check_out
read_partitions
find_root
epoch=${SOURCE_DATE_EPOCH:-$(num "$in" $((off + 1024 + 48)) 4)}
read_former
stage
check_machine
check_packages
check_config
plan
write_out
