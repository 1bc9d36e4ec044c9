# SPDX-License-Identifier: Apache-2.0
"""Checks configs/yocto, buildroot, pi-gen and jetson: integrate.py BUILD [--root]; started by integrate.sh.

 * All take the same files: what `make install` installs is in the tarball, or in a list of exceptions here, and each file is of one
   package of the Yocto recipe, the same one as in configs/debian.
 * Yocto: variables are read, units, users, version and licence compared with the sources, the make command is tried with -n, and
   oelint-adv lints, where it is. bitbake is not here: nothing is built.
 * Buildroot: Config.in is read by kconfig-conf, where it is; hone.mk is read by make with stand-ins for Buildroot's macros, and its
   commands for the target are run.
 * pi-gen: its scripts are linted and run, the chroot script in an overlay over this machine's root.
 * Jetson: its script is run on a made-up root."""
import contextlib, fnmatch, glob, hashlib, os, re, shutil, stat, subprocess, sys, tempfile

good = bad = skipped = 0
UNITS = ["hone-boot.service", "hone-worker.socket", "honed.service", "honed.socket"]


def check(what, said):
    """said: what is wrong, or nothing."""
    global good, bad
    if said:
        bad += 1
        print("integrate: not so: %s\n\t%s" % (what, "\n\t".join(str(said).strip().splitlines()[-20:])))
    else:
        good += 1


def skip(what):
    global skipped
    skipped += 1
    print("skip: integrate: " + what)


def read(path):
    with open(path) as f:
        return f.read()


for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):  # of a make that runs this, whose warnings are no output
    os.environ.pop(name, None)


def run(*argv, **more):
    """Returns (exit status, output)."""
    r = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    return r.returncode, r.stdout.decode(errors="replace")


def failed(*argv, **more):
    """Output of a command that fails."""
    rc, said = run(*argv, **more)
    return "%s\nexit status %d" % (said, rc) if rc else None


def files_of(root):
    """Files and links below a folder, as /usr/bin/hone."""
    out = set()
    for folder, folders, names in os.walk(root):
        out.update(os.path.join(folder, n)[len(root):] for n in names + [d for d in folders if os.path.islink(os.path.join(folder, d))])
    return out


# ---- what is installed ----
class Installed:
    def __init__(self, build, top):
        self.version = re.search(r"^VERSION *:= *(\S+)", read("Makefile"), re.M).group(1)
        fallback = glob.glob(build + "/gen/*.fallback.zst")
        self.root = top + "/installed"
        env = dict(os.environ, PYTHON_SITE="/usr/lib/python3/dist-packages", STRIP="strip")
        self.said = failed("sh", "tools/build/install.sh", build, self.root, "/usr", self.version, "libhone.so.1", *fallback, env=env)
        self.files = files_of(self.root)
        board = {"x86_64": "x86", "aarch64": "generic-arm64"}.get(os.uname().machine, "generic-armhf")
        # tarball.sh works in the build folder: links make one of its own.
        mine = top + "/build"
        os.mkdir(mine)
        for f in os.listdir(build):
            if f not in ("tarball", "board") and not f.endswith(".tar.gz"):
                os.symlink(build + "/" + f, mine + "/" + f)
        with open(mine + "/board", "w") as f: # where copyright files of libraries are
            f.write("%s\n/\nbookworm\n" % os.uname().machine)
        self.said = self.said or failed("sh", "tools/build/tarball.sh", mine, board, self.version, "libhone.so.1", "dynamic", *fallback)
        self.tarball = "%s/hone-%s-%s-dynamic.tar.gz" % (mine, self.version, board)
        os.mkdir(top + "/unpacked")
        self.said = self.said or failed("tar", "-C", top + "/unpacked", "-xzf", self.tarball)
        self.unpacked = top + "/unpacked"


# Of `make install`, boards do not get these by the tarball: manual pages, Python, the server, what only builds and builders of
# images need, completion, and files that the tarball leaves to the board.
NOT_IN_TARBALL = ["/usr/lib/hone/hone-image", "/usr/share/man/*", "/usr/lib/python3/*", "*hone-fleet*", "/usr/lib/libhone.a", "/usr/lib/pkgconfig/*", "/usr/share/bash-completion/*",
                  "/usr/share/doc/hone/grafana/*", "/usr/share/doc/hone/nginx/*", "/etc/hone/honed.conf", "/usr/share/doc/hone/examples/*"]


def same_files(i):
    packed = {f.replace("/usr/local/", "/usr/") for f in files_of(i.unpacked)}
    left = [f for f in i.files - packed if not any(fnmatch.fnmatch(f, e) for e in NOT_IN_TARBALL)]
    check("the tarball has what make install installs", i.said or "\n".join(sorted(left)))
    more = [f for f in packed - i.files if not re.match("/usr/share/doc/hone/(NEEDS|LICENSE|licenses/.*)$", f)]
    check("and nothing else", "\n".join(sorted(more)))


# ---- Yocto ----
def recipe(path):
    """Variables of a recipe; those of overrides as NAME:OVERRIDE."""
    text = re.sub(r"\\\n\s*", "", read(path))
    v = {}
    for name, how, value in re.findall(r'^([A-Za-z_0-9:${}.-]+)\s*(\?=|\+=|=\+|=|\?\?=)\s*"([^"\n]*)"', text, re.M):
        v[name] = v.get(name, "") + " " + value if how in ("+=", "=+") else value
    return v, text


def expand(value, v, more):
    for _ in range(8):
        value = re.sub(r"\$\{(\w+)\}", lambda m: more.get(m.group(1), v.get(m.group(1), m.group(0))), value)
    return value


FOLDERS = {"bindir": "/usr/bin", "libdir": "/usr/lib", "nonarch_libdir": "/usr/lib", "includedir": "/usr/include", "datadir": "/usr/share",
           "docdir": "/usr/share/doc", "mandir": "/usr/share/man", "sysconfdir": "/etc", "localstatedir": "/var", "prefix": "/usr", "PN": "hone",
           "PV": "0.1.0", "systemd_system_unitdir": "/usr/lib/systemd/system", "PYTHON_SITEPACKAGES_DIR": "/usr/lib/python3/dist-packages"}
# Where Yocto puts the rest by itself.
DEFAULTS = {"hone-doc": ["/usr/share/doc", "/usr/share/man"], "hone": ["/usr/share/hone", "/usr/bin"]}


def lies_in(path, patterns):
    parts = path.split("/")
    return any(fnmatch.fnmatch("/".join(parts[:n]), p) for p in patterns for n in range(2, len(parts) + 1))


def debian_of(path):
    """The package of configs/debian that has an installed file, if its lists say it: the one with the longest pattern."""
    found = []
    for f in glob.glob("configs/debian/*.install"):
        for line in read(f).splitlines():
            words = line.split()
            if not words or line.startswith("#"):
                continue
            pattern = "/" + words[0].replace("usr/lib/*/", "usr/lib/").replace("debian/tmp/", "")
            if pattern.startswith("/lib/"):
                pattern = "/usr" + pattern
            if lies_in(path, [pattern]):
                found.append((len(pattern), os.path.basename(f)[:-8]))
    return max(found)[1] if found else None


class Datastore:
    """As much of bitbake's as hone-robot's function needs."""
    def __init__(self, v):
        self.v = v

    def getVar(self, name):
        return self.v.get(name)


def robot(layer, top):
    """Runs do_install of hone-robot, on files that lie where bitbake unpacks them."""
    v, text = recipe(layer + "/recipes-hone/hone-robot/hone-robot_1.0.bb")
    functions = {}
    exec(re.search(r"^def hone_unpacked.*?(?=^\S+\(\) \{)", text, re.M | re.S).group(0), functions)
    body = re.search(r"^do_install\(\) \{\n(.*?)^\}", text, re.M | re.S).group(1)
    for n, (model, pack) in enumerate((("file://model.onnx", ""), ("file://model.onnx", "file://seed.seg"), ("file://a/lanes.onnx;md5sum=1", ""),
                                       ("file:///srv/b.onnx", "https://x.invalid/packs/c.seg;name=pack"), (None, None))):
        src, dest = "%s/robot-%d/src" % (top, n), "%s/robot-%d/dest" % (top, n)
        mine = dict(v, **{k: w for k, w in (("HONE_MODEL", model), ("HONE_PACK", pack)) if w is not None})
        for name, path in (("model", re.sub("^[a-z]*:/*|;.*", "", model or "model.onnx")), ("pack", os.path.basename((pack or "").split(";")[0])),
                           ("conf", "robot.conf")):
            if path:
                os.makedirs(os.path.dirname(src + "/" + path), exist_ok=True)
                with open(src + "/" + path, "w") as f:
                    f.write(name)
        script = re.sub(r"\$\{@hone_unpacked\(d, '(\w+)'\)\}", lambda m: functions["hone_unpacked"](Datastore(mine), m.group(1)), body)
        said = failed("sh", "-ec", expand(script, mine, dict(FOLDERS, UNPACKDIR=src, D=dest)))
        seed = dest + "/usr/share/hone/cache/seed.seg"
        check("hone-robot installs the model %s and the pack %s" % (model or "by default", pack or "(none)"), said or
              (read(dest + "/opt/robot/model.onnx") != "model" and "another file is the model") or
              (os.path.exists(seed) != bool(pack) and "%s is %sthere" % (seed, "" if os.path.exists(seed) else "not ")) or
              (pack and read(seed) != "pack" and "another file is the pack"))


def yocto(i):
    layer = "configs/yocto/meta-hone"
    v, text = recipe(layer + "/recipes-hone/hone/hone_%s.bb" % i.version)
    more = dict(FOLDERS, PV=i.version)
    order = expand(re.search(r'PACKAGES =\+ "([^"]*)"', text).group(1), v, more).split()
    lists = [(p, expand(v["FILES:" + p], v, more).split()) for p in order]
    lists += [("hone-doc", expand(v.get("FILES:${PN}-doc", ""), v, more).split() + DEFAULTS["hone-doc"]),
              ("hone", expand(v.get("FILES:${PN}", ""), v, more).split() + DEFAULTS["hone"])]
    none, other = [], []
    for f in sorted(i.files):
        if "hone-fleet" in f or "/doc/hone/nginx" in f: # the recipe makes no server
            continue
        package = next((p for p, patterns in lists if lies_in(f, patterns)), None)
        if not package:
            none.append(f)
        deb = debian_of(f)
        deb = {"libhone1": "libhone"}.get(deb, deb)
        if package and deb and deb != package and not (package in ("hone-doc", "libhone-staticdev") or deb == "hone-fleet"):
            other.append("%s: %s, in Debian %s" % (f, package, deb))
    check("each installed file is of a package of the recipe", "\n".join(none))
    check("of the same package as in Debian", "\n".join(other))
    check("the recipe's lists name files that are there", "\n".join(
        "%s of %s" % (q, p) for p, patterns in lists for q in patterns if not any(lies_in(f, [q]) for f in i.files)))
    check("the licence's sum", hashlib.md5(open("LICENSE", "rb").read()).hexdigest() not in v["LIC_FILES_CHKSUM"] and v["LIC_FILES_CHKSUM"])
    check("units", [u for u in v["SYSTEMD_SERVICE:honed"].split() if not os.path.exists("configs/systemd/" + u)] or
          sorted(v["SYSTEMD_SERVICE:honed"].split()) != UNITS and v["SYSTEMD_SERVICE:honed"])
    users = re.findall(r"^u (\S+)", read("configs/systemd/sysusers.conf"), re.M)
    made = [u.split()[-1] for u in v["USERADD_PARAM:honed"].split(";")]
    check("users", sorted(made + ["hone-fleet"]) != sorted(users) and "%s, and sysusers.conf has %s" % (made, users))
    # The recipe's own make command, with stand-ins for Yocto's folders.
    with tempfile.TemporaryDirectory() as d:
        open(d + "/.complete", "w").close()
        open(d + "/hone-maker", "w").close()
        stand = dict(more, HONE_BOARD="generic-arm64", TARGET_SYS="aarch64-poky-linux", STAGING_DIR_TARGET=d, STAGING_BINDIR_NATIVE=d,
                     STAGING_INCDIR=d, prefix="/usr")
        argv = expand(v["EXTRA_OEMAKE"], v, stand).split()
        env = {k: w for k, w in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "B")}
        rc, said = run("make", "-n", *argv, "install", "DESTDIR=" + d, env=env)
        check("make takes the recipe's variables", rc and said or "aarch64-poky-linux-gcc" not in said and "another compiler is used" or
              d + "/hone-maker --fallback" not in said and "the native maker is not used")
    try:
        import oelint_adv
    except ImportError:
        return skip("Yocto: no oelint-adv here (pip install oelint_adv)")
    found = [f for e in ("bb", "bbclass", "conf") for f in glob.glob(layer + "/**/*." + e, recursive=True) if not f.endswith("robot.conf")]
    rc, said = run(sys.executable, "-m", "oelint_adv", "--quiet", "--suppress", "oelint.var.filesoverride", "--suppress", "oelint.vars.homepageping", *found)
    check("oelint-adv finds no errors and warnings", "\n".join(l for l in said.splitlines() if ":info:" not in l))


# ---- Buildroot ----
STANDINS = """
qstrip = $(strip $(subst ",,$(1)))
INSTALL = install
generic-package =
define sep


endef
include %s/external.mk
show:
	@echo "$(HONE_VERSION) $(HONE_SOURCE) $(HONE_SITE) $(BR_NO_CHECK_HASH_FOR)"
define users
$(HONE_USERS)
endef
export users
users:
	@echo "$$users"
install:
	$(HONE_INSTALL_STAGING_CMDS)
	$(HONE_INSTALL_TARGET_CMDS)
	$(HONE_INSTALL_INIT_SYSTEMD)
"""


def buildroot(i, top):
    folder = os.path.realpath("configs/buildroot")
    with open(top + "/Makefile", "w") as f:
        f.write(STANDINS % folder)
    model, pack = top + "/model.onnx", top + "/seed.seg"
    for f in (model, pack):
        open(f, "w").close()
    target, staging = top + "/target", top + "/staging"
    argv = ["make", "-s", "-C", top, "BR2_EXTERNAL_HONE_PATH=" + folder, 'BR2_PACKAGE_HONE_TARBALL="%s"' % i.tarball, "TARGET_DIR=" + target,
            "STAGING_DIR=" + staging, 'BR2_PACKAGE_HONE_MODEL="%s"' % model, 'BR2_PACKAGE_HONE_PACK="%s"' % pack]
    rc, said = run(*argv, "show")
    name = os.path.basename(i.tarball)
    check("Buildroot: hone.mk takes the tarball", said.split() != [i.version, name, os.path.dirname(i.tarball), name] and said)
    # $(@D) is the folder of the unpacked package, which make reads as the folder of the goal.
    text = read(top + "/Makefile").replace("\ninstall:", "\n%s/install:" % i.unpacked)
    with open(top + "/Makefile", "w") as f:
        f.write(text)
    check("Buildroot: its commands install", failed(*argv, i.unpacked + "/install"))
    want, have = files_of(i.unpacked), files_of(target)
    links = {"/etc/systemd/system/%s.wants/%s" % ("sockets.target" if u == "hone-worker.socket" else "multi-user.target", u) for u in UNITS}
    own = links | {"/usr/lib/libhone.so.1", "/usr/lib/hone", "/etc/hone/honed.conf", "/etc/hone/honed.conf.d/robot.conf", "/opt/robot/model.onnx",
                   "/usr/share/hone/cache/seed.seg"}
    check("Buildroot: the target has the tarball's files, and those of the package", "\n".join(sorted(want - have) + sorted(have ^ (want | own))) if have != want | own else None)
    check("Buildroot: links lead somewhere", "\n".join(f for f in sorted(own) if os.path.islink(target + f) and not leads(target, f)))
    check("Buildroot: the staging folder has headers and libhone", {"/usr/include/hone.h", "/usr/lib/libhone.so"} - files_of(staging))
    rc, said = run(*argv, "users")
    users = [l.split()[0] for l in said.splitlines() if l.strip()]
    check("Buildroot: users", sorted(users + ["hone-fleet"]) != sorted(re.findall(r"^u (\S+)", read("configs/systemd/sysusers.conf"), re.M)) and said)
    check("Buildroot: external.desc", not re.search(r"^name: HONE$", read(folder + "/external.desc"), re.M) and "no name: HONE")
    if not shutil.which("kconfig-conf"):
        return skip("Buildroot: no kconfig-conf here (apt-get install kconfig-frontends)")
    with open(top + "/Config.in", "w") as f:
        f.write('config BR2_EXTERNAL_HONE_PATH\n\tstring\n\toption env="BR2_EXTERNAL_HONE_PATH"\nconfig BR2_aarch64\n\tbool "aarch64"\nconfig BR2_arm\n\tbool "arm"\nconfig BR2_TOOLCHAIN_USES_GLIBC\n\tbool "glibc"\nsource "%s/Config.in"\n' % folder)
    with open(top + "/.config", "w") as f:
        f.write('BR2_aarch64=y\nBR2_TOOLCHAIN_USES_GLIBC=y\nBR2_PACKAGE_HONE=y\nBR2_PACKAGE_HONE_TARBALL="/t"\n')
    rc, said = run("kconfig-conf", "--olddefconfig", "Config.in", cwd=top, env=dict(os.environ, CONFIG_="", BR2_EXTERNAL_HONE_PATH=folder))
    config = read(top + "/.config")
    check("Buildroot: kconfig reads Config.in", rc and said or "warning" in said and said or
          [l for l in ("BR2_PACKAGE_HONE=y", 'BR2_PACKAGE_HONE_TARBALL="/t"', 'BR2_PACKAGE_HONE_MODEL=""') if l not in config])


def leads(root, path):
    """Whether a link leads to a file, seen from inside of a root."""
    to = os.readlink(root + path)
    return os.path.exists(root + to if to.startswith("/") else os.path.join(os.path.dirname(root + path), to))


# ---- pi-gen ----
@contextlib.contextmanager
def overlay(top):
    mem, root = top + "/mem", top + "/root"
    os.mkdir(mem), os.mkdir(root)
    said = failed("mount", "-t", "tmpfs", "tmpfs", mem)
    for d in ("upper/etc/hone", "upper/etc/systemd/system", "upper/opt", "work"):
        if not said:
            os.makedirs(mem + "/" + d)
            if d.startswith("upper"):
                os.setxattr(mem + "/" + d, "trusted.overlay.opaque", b"y")
    said = said or failed("mount", "-t", "overlay", "overlay", "-o", "lowerdir=/,upperdir=%s/upper,workdir=%s/work" % (mem, mem), root)
    try:
        yield None if said else root
    finally:
        for m in (root, mem):
            subprocess.call(["umount", m], stderr=subprocess.DEVNULL)


def stage(tarball, unpacked, top, root, model, what, enter=()):
    """Runs the stage's scripts, as pi-gen does, on a root. enter: a command before chroot."""
    src = top + "/stage-hone"
    shutil.rmtree(src, ignore_errors=True)
    shutil.copytree("configs/pi-gen/stage-hone", src)
    part = src + "/00-hone"
    shutil.copy(tarball, part + "/files/hone.tar.gz")
    shutil.copy(model, part + "/files/model.onnx")
    open(part + "/files/seed.seg", "w").close()
    env = dict(os.environ, ROOTFS_DIR=root, HOME="/root")
    check("pi-gen, %s: 01-run.sh" % what, failed("bash", "-e", "01-run.sh", cwd=part, env=env))
    env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "SYSTEMD_OFFLINE": "1", "HOME": "/root"}
    check("pi-gen, %s: 02-run-chroot.sh" % what, failed(*enter, "chroot", root, "bash", "-e", stdin=open(part + "/02-run-chroot.sh"), env=env))
    want = files_of(unpacked) | {"/opt/robot/model.onnx", "/etc/hone/honed.conf", "/etc/hone/honed.conf.d/robot.conf", "/usr/share/hone/cache/seed.seg"}
    check("pi-gen, %s: the root has the tarball's files, a model and a pack" % what, "\n".join(f for f in sorted(want) if not os.path.lexists(root + f)))
    enabled = {os.path.basename(f) for f in glob.glob(root + "/etc/systemd/system/*.wants/*")}
    check("pi-gen, %s: units are enabled" % what, set(UNITS) - enabled)
    check("pi-gen, %s: users" % what, [u for u in ("hone", "hone-worker", "hone-sync") if "\n%s:" % u not in read(root + "/etc/passwd")])


def pi_gen(i, top, model, is_root):
    scripts = glob.glob("configs/pi-gen/**/*.sh", recursive=True)
    check("pi-gen: scripts can be run", [s for s in scripts if not os.stat(s).st_mode & stat.S_IXUSR])
    if shutil.which("shellcheck"):
        check("pi-gen: shellcheck", failed("shellcheck", *scripts))
    else:
        skip("pi-gen: no shellcheck here")
    if not is_root:
        return skip("pi-gen: a root to run its scripts in needs root and mounts")
    with overlay(top) as root:
        if not root:
            return skip("pi-gen: no overlay over /")
        stage(i.tarball, i.unpacked, top, root, model, "overlay")
    if os.environ.get("ARM"):
        emulated(top, model, os.environ["ARM"])


PACKAGES = ("base-files,base-passwd,bash,coreutils,grep,sed,util-linux,libc-bin,passwd,systemd,libuv1,libinih1,libjansson4,libprotobuf-c1,libzstd1,"
            "libhwloc15,libmbedcrypto7,libmbedx509-1,libpng16-16,libjpeg62-turbo,libcurl4")
EMULATE = """mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc && cat /usr/lib/binfmt.d/qemu-aarch64.conf >/proc/sys/fs/binfmt_misc/register
exec "$@"
"""


def emulated(top, model, tarball):
    """The stage on a Debian root of arm64, whose programs QEMU emulates."""
    root, unpacked = top + "/arm64", top + "/arm64-unpacked"
    said = failed("mmdebstrap", "--quiet", "--variant=extract", "--architectures=arm64", "--include=" + PACKAGES, "bookworm", root)
    if said:
        return check("a Debian root of arm64", said)
    os.mkdir(unpacked)
    check("the tarball for arm64", failed("tar", "-C", unpacked, "-xzf", tarball))
    shutil.copy(root + "/usr/share/base-passwd/passwd.master", root + "/etc/passwd")
    shutil.copy(root + "/usr/share/base-passwd/group.master", root + "/etc/group")
    stage(tarball, unpacked, top, root, model, "arm64", ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", EMULATE, "sh"))


# ---- Jetson ----
def jetson(i, top, model, is_root):
    script = "configs/jetson/hone-rootfs.sh"
    if shutil.which("shellcheck"):
        check("Jetson: shellcheck", failed("shellcheck", script))
    else:
        skip("Jetson: no shellcheck here")
    l4t = top + "/Linux_for_Tegra"
    check("Jetson: without a root it says what to do", "apply_binaries.sh" not in run("sh", script, l4t, i.tarball, model)[1] and "no word of apply_binaries.sh")
    if not is_root:
        return skip("Jetson: need root")
    root = l4t + "/rootfs"
    for d in ("etc", "usr/lib"):
        os.makedirs(root + "/" + d)
    for name, line in (("passwd", "root:x:0:0:root:/root:/bin/sh\n"), ("group", "root:x:0:\n")):
        with open(root + "/etc/" + name, "w") as f:
            f.write(line)
    pack = top + "/seed.seg"
    open(pack, "w").close()
    for what, broken in (("a missing model", [i.tarball, top + "/none.onnx"]), ("another tarball", [top + "/other.tar.gz", model])):
        subprocess.call(["tar", "-czf", top + "/other.tar.gz", "-C", top, "seed.seg"])
        check("Jetson: %s is refused, and nothing is written" % what, run("sh", script, l4t, *broken)[0] == 0 and "exit status 0" or
              files_of(root) - {"/etc/passwd", "/etc/group"})
    for turn in ("once", "twice"):
        check("Jetson: %s" % turn, failed("sh", script, l4t, i.tarball, model, pack))
        if turn == "once":
            with open(root + "/etc/hone/honed.conf", "a") as f:
                f.write("# mine\n")
    check("Jetson: a configuration that was there stays", "# mine" not in read(root + "/etc/hone/honed.conf") and "it was overwritten")
    want = files_of(i.unpacked) | {"/opt/robot/model.onnx", "/etc/hone/honed.conf.d/robot.conf", "/usr/share/hone/cache/seed.seg"}
    have = files_of(root)
    check("Jetson: the root has the tarball's files, a model and a pack", "\n".join(sorted(want - have)))
    links = [f for f in have if ".wants/" in f]
    check("Jetson: units are enabled", sorted(os.path.basename(f) for f in links) != UNITS and links or [f for f in links if not leads(root, f)])
    check("Jetson: drop-ins are of units that are there", [f for f in have if ".service.d/" in f and
                                                           not os.path.exists("configs/systemd/" + f.split("/")[-2][:-2])])
    if shutil.which("systemd-sysusers"):
        check("Jetson: users", [u for u in ("hone", "hone-worker", "hone-sync") if "\n%s:" % u not in read(root + "/etc/passwd")])


def main():
    build, is_root = os.path.realpath(sys.argv[1]), "--root" in sys.argv
    top = tempfile.mkdtemp(prefix="hone-integrate-")
    try:
        if is_root:
            subprocess.check_call(["mount", "--make-rprivate", "/"])
        i = Installed(build, top)
        same_files(i)
        yocto(i)
        robot("configs/yocto/meta-hone", top)
        model = top + "/net.onnx"
        check("a model", failed(build + "/hone", "zoo", "steering", "-o", model, "-q"))
        for name, test in (("buildroot", buildroot), ("pi-gen", pi_gen), ("jetson", jetson)):
            own = top + "/" + name
            os.mkdir(own)
            test(i, own) if test is buildroot else test(i, own, model, is_root)
        copies = glob.glob("configs/*/**/robot.conf", recursive=True)
        copies = [c for c in copies if "examples" not in c]
        check("the copies of robot.conf are alike", len({read(c) for c in copies}) != 1 and copies)
    finally:
        subprocess.call(["rm", "-rf", "--one-file-system", top])
    print("%d passed, %d failed, %d skipped" % (good, bad, skipped))
    return 1 if bad else 0


sys.exit(main())
