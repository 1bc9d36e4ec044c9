# SPDX-License-Identifier: Apache-2.0
"""Runs every command of Markdown pages: docs.py BUILD [--board] [PAGE...]; started by docs.sh, which gives --board its namespaces.

Each fenced block says how it is run, by the words after its language:
  sh            in a scratch folder that is HOME, too, with the build's programs on PATH
  sh root       as root on a board (docs.sh says which), in /root
  sh source     in the folder of the sources; make only prints what it would do (make -n), and the text before it says so
  sh elsewhere  not here: it is parsed, linted, and the text before it says "not run"
  LANG file F   the text of file F: on the board if F is absolute, else in the scratch folder
  text output   what the block before printed, among other lines: * stands for anything within a line
More words: `fails` (the command has to fail), `bg` (it goes on while the next blocks run), `needs=A,B` (skipped without these
programs, files, files of the build, root, or modules as python:NAME). A page's blocks of one kind share a shell with `set -e`.
`<!-- board: installed -->` in a page: its board has hone installed already; else it has only the tarballs and packages that the
page names, in /root. `<!-- user: installed -->`: `make install PREFIX=$HOME/.local` was run before the page. Tarballs are of this machine, whatever board their name says, and a system's image is a small file
system. Boxes are shortened: `budget 20s` becomes 5 s. honed on the board does not wait for an idle machine.

Besides: commands and options of hone that a page's text names in `...` exist, as do files below configs/; headings of trouble.md
are messages that the source has."""
import fcntl, fnmatch, glob, os, re, shutil, signal, socket, struct, subprocess, sys, tempfile, time

SOURCE = os.getcwd()
PROGRAMS = ("hone", "honed", "hone-worker", "hone-sync", "hone-fleet")
good = bad = skipped = 0
counts = {"run": 0, "elsewhere": 0} # blocks of commands


def check(what, said):
    """said: what is wrong, or nothing."""
    global good, bad
    if said:
        bad += 1
        print("docs: %s" % what)
        print("\t" + "\n\t".join(str(said).strip().splitlines()[-25:]))
    else:
        good += 1


def skip(what):
    global skipped
    skipped += 1
    print("skip: docs: " + what)


class Block:
    def __init__(self, page, line, info, before):
        self.page, self.line, self.before = page, line, before
        self.lang, *self.words = info.split() or [""]
        self.text = ""

    def where(self):
        return "%s:%d" % (self.page, self.line)

    def needs(self):
        return [n for w in self.words if w.startswith("needs=") for n in w[6:].split(",")]

    def kind(self):
        words = [w for w in self.words if w not in ("fails", "bg") and not w.startswith("needs=")]
        if self.lang == "sh" and words in ([], ["root"], ["source"], ["elsewhere"]):
            return words[0] if words else "user"
        if len(words) == 2 and words[0] == "file":
            return "file"
        if [self.lang] + words == ["text", "output"]:
            return "output"
        return None


def blocks_of(page, text):
    found, block, before = [], None, ""
    for n, line in enumerate(text.splitlines(), 1):
        mark = re.match(r"\s*```(.*)", line)
        if mark and block is None:
            block = Block(os.path.basename(page), n, mark.group(1), before)
        elif mark:
            found.append(block)
            block, before = None, ""
        elif block:
            block.text += line + "\n"
        else:
            before += line + "\n"
    if block:
        check("%s: a block without an end" % block.where(), "```")
    return found


class Shell:
    """One shell that is given block after block."""

    def __init__(self, argv, folder, seen_as, env, cwd):
        self.log = tempfile.TemporaryFile()
        self.folder, self.seen_as, self.n = folder, seen_as, 0
        self.p = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=self.log, stderr=self.log, env=env, cwd=cwd,
                                  start_new_session=True)

    def run(self, block, text, limit_s=100):
        """Returns (failure or None, output)."""
        self.n += 1
        name, mark = "block-%d.sh" % self.n, "@@ block %d " % self.n
        with open(os.path.join(self.folder, name), "w") as f:
            f.write(text)
        path, start = os.path.join(self.seen_as, name), os.fstat(self.log.fileno()).st_size
        if "bg" in block.words:
            line = ". %s </dev/null & sleep 1; kill -0 $!; echo '%s'0\n" % (path, mark)
        elif "fails" in block.words:
            line = "if sh -e %s </dev/null; then echo '%s'1; else echo '%s'0; fi\n" % (path, mark, mark)
        else:
            line = "set -e; . %s </dev/null; echo '%s'0\n" % (path, mark)
        try:
            self.p.stdin.write(line.encode())
            self.p.stdin.flush()
        except BrokenPipeError:
            return "its shell has ended", ""
        until = time.time() + limit_s
        while True:
            ended = self.p.poll()
            said = os.pread(self.log.fileno(), 1 << 20, start).decode(errors="replace")
            if mark in said:
                said, code = said.split(mark)[0], said.split(mark)[1].strip()
                return ("it does not fail" if code[0] != "0" else None), said
            if ended is not None:
                return "exit status %d" % ended, said
            if time.time() > until:
                return "it takes more than %d s" % limit_s, said
            time.sleep(0.02)

    def end(self):
        try:
            os.killpg(self.p.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.p.wait()


class Board:
    """systemd in a container, over an overlay."""
    MASKED = """systemd-udevd.service systemd-udev-trigger.service systemd-udevd-control.socket systemd-udevd-kernel.socket timers.target
        systemd-networkd.service systemd-resolved.service systemd-timesyncd.service systemd-logind.service dbus.service dbus.socket""".split()

    EMPTY = "etc/systemd/system etc/tmpfiles.d var/log/journal etc/hone etc/hone-fleet var/lib/hone usr/share/hone root opt".split()

    def __init__(self, build, page, text):
        self.nspawn = self.shell = None
        self.top = tempfile.mkdtemp(prefix="hone-docs-")
        mem, self.root = self.top + "/mem", self.top + "/root"
        os.mkdir(mem), os.mkdir(self.root)
        run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", mem)
        os.mkdir(mem + "/upper"), os.mkdir(mem + "/work")
        for new in self.EMPTY: # this machine's folders of these names are not seen
            os.makedirs(mem + "/upper/" + new)
            os.setxattr(mem + "/upper/" + new, "trusted.overlay.opaque", b"y")
        run("mount", "-t", "overlay", "overlay", "-o", "lowerdir=/,upperdir=%s/upper,workdir=%s/work" % (mem, mem), self.root)
        for gone in ("/etc/machine-id", "/etc/fstab", "/usr/sbin/policy-rc.d"):
            subprocess.call(["rm", "-f", self.at(gone)])
        etc = self.at("/etc/systemd/system")
        for folder in (etc + "/board.target.wants", self.at("/root/.docs")):
            os.makedirs(folder)
        write(self.at("/etc/machine-id"), "00000000000000000000000000000001\n")
        for u in self.MASKED:
            os.symlink("/dev/null", etc + "/" + u)
        write(etc + "/board.target", "[Unit]\nRequires=basic.target\nAfter=basic.target\n")
        given = glob.glob(build + "/deb/*.deb") if re.search(r"\.deb\b", text) else []
        for f in given:
            shutil.copy(f, self.at("/root"))
        for name in set(re.findall(r"hone-[0-9.]+-[a-z0-9-]+\.tar\.gz", text)):
            shutil.copy(tarball(build), self.at("/root/" + name))
        self.installed = "<!-- board: installed -->" in text
        if self.installed:
            run("tar", "-C", self.root, "--keep-directory-symlink", "-xzf", tarball(build))
            run("install", build + "/hone-fleet", self.at("/usr/local/bin"))
            run("sh", "tools/build/units.sh", "--install", self.root, "/usr/local")
            for folder in ("nginx", "grafana"):
                shutil.copytree("configs/" + folder, self.at("/usr/local/share/doc/hone/" + folder), dirs_exist_ok=True)
        if "\nrender:" not in read(self.at("/etc/group")): # boards have it from udev
            with open(self.at("/etc/group"), "a") as f:
                f.write("render:x:900:\n")
        # Tests run beside others: the daemon of the test's board tunes all the same.
        os.makedirs(self.at("/etc/hone/honed.conf.d"), exist_ok=True)
        write(self.at("/etc/hone/honed.conf.d/00-test.conf"), "[idle]\nslice = 4s\nsettle = 1s\nload = 100%\npressure = 100%\n")
        self.boot()

    def at(self, path):
        return self.root + path

    def boot(self):
        env = dict(os.environ, SYSTEMD_NSPAWN_UNIFIED_HIERARCHY="1")
        console = open(self.top + "/mem/console", "w")
        self.nspawn = subprocess.Popen(["systemd-nspawn", "-q", "-D", self.root, "--boot", "--register=no", "--keep-unit", "--console=pipe",
                                        "systemd.unit=board.target"], stdin=subprocess.DEVNULL, stdout=console, stderr=console, env=env)
        until = time.time() + 20
        while time.time() < until:
            try:
                kid = read("/proc/%d/task/%d/children" % (self.nspawn.pid, self.nspawn.pid)).split()[0]
                inside = ["nsenter", "-t", kid, "-m", "-u", "-i", "-p", "-C", "--"]
                if read("/proc/%s/comm" % kid).strip() == "systemd" and \
                        subprocess.call(inside + ["systemctl", "is-active", "-q", "board.target"], stderr=subprocess.DEVNULL) == 0:
                    break
            except (OSError, IndexError):
                pass
            time.sleep(0.1)
        else:
            raise OSError("the board does not boot: " + read(self.top + "/mem/console")[-300:])
        env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8",
               "DEBIAN_FRONTEND": "noninteractive", "SYSTEMD_PAGER": "cat"}
        if self.installed:
            subprocess.check_call(inside + ["sh", "-c", "systemd-sysusers && systemd-tmpfiles --create >/dev/null 2>&1; ldconfig"], env=env)
        self.shell = Shell(inside + ["sh", "-c", "cd /root && exec sh"], self.at("/root/.docs"), "/root/.docs", env, "/")

    def end(self):
        if self.shell:
            self.shell.end()
        if self.nspawn:
            try:
                kid = read("/proc/%d/task/%d/children" % (self.nspawn.pid, self.nspawn.pid)).split()[0]
                os.kill(int(kid), signal.SIGKILL)
            except (OSError, IndexError):
                self.nspawn.kill()
            self.nspawn.wait()
        for m in (self.root, self.top + "/mem"):
            subprocess.call(["umount", m], stderr=subprocess.DEVNULL)
        subprocess.call(["rm", "-rf", "--one-file-system", self.top])


def run(*argv, env=None):
    r = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env)
    if r.returncode:
        raise OSError("%s: %s" % (" ".join(argv), r.stdout.decode(errors="replace")[-300:]))
    return r.stdout.decode(errors="replace")


def read(path):
    with open(path, errors="replace") as f:
        return f.read()


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


VERSION = re.search(r"^VERSION *:= *(\S+)", read("Makefile"), re.M).group(1)


def tarball(build, made=[]):
    """This machine's programs, packed as a board's. tarball.sh works in the build folder: links make one of its own."""
    if not made:
        board = {"x86_64": "x86", "aarch64": "generic-arm64"}.get(os.uname().machine, "generic-armhf")
        for f in os.listdir(build):
            if f not in ("tarball", "board") and not f.endswith(".tar.gz"):
                os.symlink(build + "/" + f, SCRATCH + "/" + f)
        write(SCRATCH + "/board", "%s\n/\nbookworm\n" % os.uname().machine) # where copyright files of libraries are
        run("sh", "tools/build/tarball.sh", SCRATCH, board, VERSION, "libhone.so.1", "dynamic", *glob.glob(build + "/gen/*.fallback.zst"))
        made.append("%s/hone-%s-%s-dynamic.tar.gz" % (SCRATCH, VERSION, board))
    return made[0]


def system_image(path):
    """A small ext4 file system that passes for a system's image."""
    root = SCRATCH + "/system"
    if not os.path.exists(root):
        for d in ("etc/systemd/system", "usr/lib/systemd/system", "usr/local", "opt", "var/lib"):
            os.makedirs(root + "/" + d)
        write(root + "/etc/os-release", "ID=debian\n")
        write(root + "/usr/lib/systemd/system/robot.service", "[Service]\nExecStart=/opt/robot\n")
        shutil.copy("/lib/systemd/systemd" if os.path.exists("/lib/systemd/systemd") else "/bin/sh", root + "/usr/lib/systemd/systemd")
        os.symlink("usr/lib", root + "/lib")
    run("mke2fs", "-q", "-F", "-t", "ext4", "-d", root, path, "128M")


def shorter(text):
    text = re.sub(r"(?<=budget )[0-9]+(?=s\b)", "5", text)
    return re.sub(r"(?<=budget = )[0-9]+(?=s\b)", "4", text)


# ---- commands and options that hone has ----
def help_of(program, command, known={}):
    key = (program, command)
    if key not in known:
        argv = [program] + ([command] if command else []) + ["--help"]
        r = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(os.environ, PATH=PATH))
        known[key] = r.stdout.decode() if r.returncode == 0 else None
    return known[key]


def wrong_call(line):
    """What is wrong with a call of one of hone's programs; nothing if it is another one's."""
    words = re.sub(r"[`'\"()]", " ", line).split()
    while words and (re.match(r"[A-Z_]+=", words[0]) or words[0] in ("sudo", "exec", "!")):
        words = words[1:]
    if not words or words[0] not in ("hone", "honed", "hone-sync", "hone-fleet"):
        return None
    program, command, rest = words[0], None, words[1:]
    if program in ("hone", "hone-fleet") and rest and not rest[0].startswith("-"):
        command, rest = rest[0], rest[1:]
        if command.isupper() or command == "COMMAND":
            return None
    said = help_of(program, command)
    if said is None:
        return "%s has no command '%s'" % (program, command)
    for w in rest:
        if w in ("--", "|", "&&", ";", ">", "||", "&"):
            break
        option = re.match(r"--?[a-z][a-z-]*", w)
        if option and not re.search(r"(?<![\w-])%s(?![\w-])" % re.escape(option.group(0)), said):
            return "%s %s has no option %s" % (program, command or "", option.group(0))
    return None


def wrong_words(text):
    """Calls and files that a page names and that are not there."""
    out = []
    prose = re.sub(r"(?ms)^\s*```.*?^\s*```\s*$", "", text)
    for span in re.findall(r"`([^`\n]+)`", prose):
        w = wrong_call(span)
        if w:
            out.append("`%s`: %s" % (span, w))
        if "..." not in span and re.match(r"(configs|tests|tools|agent)/[\w./-]+$", span) and not os.path.exists(span):
            out.append("there is no " + span)
    for link in re.findall(r"\]\(([\w./-]+\.md)\)", prose):
        if not os.path.exists("configs/doc/" + link):
            out.append("there is no page " + link)
    return out


def messages(known=[]):
    """All strings of the sources, with ... for what printf puts in."""
    if not known:
        for top in ("agent", "kernels", "platform", "search", "tools"):
            for f in glob.glob(top + "/**/*.[ch]", recursive=True):
                text = re.sub(r'"\s*\n\s*"', "", read(f))
                text = re.sub(r'" *PRI[a-zA-Z0-9]+ *"', "d", text)
                known.extend(re.findall(r'"((?:[^"\\\n]|\\.)*)"', text))
        known[:] = ["\n".join(re.sub(r"%[-+ #0-9.*]*(?:hh|h|ll|l|z|j)?[a-zA-Z]", "...", s).replace('\\"', '"') for s in known)]
    return known[0]


def unknown_messages(text):
    return [h for h in re.findall(r"^## (.+)$", text, re.M) if not h.startswith("If ") and h not in messages()]


def lint(block):
    out = subprocess.run(["sh", "-n"], input=block.text.encode(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.decode()
    if not out and shutil.which("shellcheck"):
        r = subprocess.run(["shellcheck", "-s", "sh", "-e", "SC2035,SC2086,SC2164", "-"], input=block.text.encode(), stdout=subprocess.PIPE)
        out = r.stdout.decode() if r.returncode else ""
    if not re.search(r"not\s+run", block.before):
        out += "the text before it does not say that it was not run"
    return out


def unlike(want, said):
    """Lines of a sample that are not, in this order, among the lines that were said."""
    lines = iter(said.splitlines())
    for w in want.splitlines():
        if w.strip() in ("", "..."):
            continue
        pattern = re.compile(".*".join(re.escape(p) for p in w.strip().split("*")))
        if not any(pattern.fullmatch(l.strip()) for l in lines):
            return "not printed: %s\n%s" % (w, said)
    return None


class Page:
    def __init__(self, build, path, can_board):
        self.build, self.path, self.can_board = build, path, can_board
        self.name, self.text = os.path.basename(path), read(path)
        self.home = tempfile.mkdtemp(prefix="hone-docs-")
        self.board, self.shells, self.dead = None, {}, {}
        self.said = None

    def on_board(self):
        if not self.board:
            try:
                self.board = Board(self.build, self.name, self.text)
            except OSError as e:
                self.can_board = None
                check("%s: a board" % self.name, e)
        return self.board

    def shell(self, kind):
        if kind == "root":
            return self.on_board().shell if self.on_board() else None
        if kind not in self.shells:
            env = dict(os.environ, HOME=self.home, PATH=PATH, LANG="C.UTF-8", HONE_SOURCE=SOURCE, HONE_SOCKET=self.home + "/honed.sock")
            for v in ("HONE_WORKER", "MAKEFLAGS", "MAKELEVEL", "MFLAGS", "XDG_CACHE_HOME"):
                env.pop(v, None)
            os.makedirs(self.home + "/.docs", exist_ok=True)
            if kind == "user" and "<!-- user: installed -->" in self.text:
                run("sh", "tools/build/install.sh", self.build, "", self.home + "/.local", VERSION, "libhone.so.1",
                    *glob.glob(self.build + "/gen/*.fallback.zst"), env=dict(env, STRIP="strip"))
                env["PATH"] = self.home + "/.local/bin:" + os.environ["PATH"]
            for w in glob.glob(self.build + "/*.whl"):
                shutil.copy(w, self.home)
            for name in set(re.findall(r"hone-[0-9.]+-[a-z0-9-]+\.tar\.gz", self.text)):
                shutil.copy(tarball(self.build), self.home + "/" + name)
            for name in set(re.findall(r"[\w.]+(?:-[\w.]+)*-arm64\.img", self.text)):
                if shutil.which("mke2fs"):
                    system_image(self.home + "/" + name)
            self.shells[kind] = Shell(["sh"], self.home + "/.docs", self.home + "/.docs", env, SOURCE if kind == "source" else self.home)
            if kind == "source":
                # `make sysroot` was not run, either.
                os.makedirs(self.home + "/sysroot")
                write(self.home + "/sysroot/.complete", "")
                self.shells[kind].p.stdin.write(b'make() { command make -n SYSROOT="$HOME/sysroot" "$@" >/dev/null; }\n')
        return self.shells[kind]

    def has(self, need):
        if need == "root":
            return os.getuid() == 0
        if need.startswith("python:"):
            return subprocess.call(["python3", "-c", "import " + need[7:]], stderr=subprocess.DEVNULL) == 0
        return shutil.which(need) or glob.glob(need) or glob.glob(self.build + "/" + need) or glob.glob(self.build + "/deb/" + need)

    def file(self, b):
        path = b.words[b.words.index("file") + 1]
        if path.startswith("/"):
            if not self.can_board or not self.on_board():
                return skip("%s: no board here" % b.where())
            path = self.board.at(path)
        else:
            path = os.path.join(self.home, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write(path, shorter(b.text))

    def block(self, b):
        kind = b.kind()
        if not kind:
            return check("%s: a block that does not say how it is run: %s %s" % (b.where(), b.lang, " ".join(b.words)), "docs.py says how")
        if kind == "file":
            return self.file(b)
        if kind == "output":
            if self.said is None:
                return skip("%s: its command was not run" % b.where())
            return check("%s: other output" % b.where(), unlike(b.text, self.said))
        self.said = None
        for line in b.text.splitlines():
            wrong = wrong_call(line) if "fails" not in b.words else None
            if wrong:
                return check("%s: %s" % (b.where(), line), wrong)
        if kind == "elsewhere":
            counts["elsewhere"] += 1
            return check("%s: %s" % (b.where(), b.text.splitlines()[0]), lint(b))
        missing = [n for n in b.needs() if not self.has(n)]
        if kind == "root" and not self.can_board:
            return skip("%s: no board here (root and systemd-nspawn make one)" % b.where())
        if missing or kind in self.dead:
            return skip("%s: %s" % (b.where(), "no " + missing[0] if missing else "a command before it was not run"))
        if kind == "source" and kind not in self.shells:
            check("%s: %s" % (b.where(), b.text.splitlines()[0]), "`make -n`" not in b.before and "the text before it does not say that `make -n` only prints it")
        shell = self.shell(kind)
        if not shell:
            return skip("%s: the board does not boot" % b.where())
        start = time.time()
        failure, said = shell.run(b, shorter(b.text))
        counts["run"] += 1
        if os.environ.get("TEST_TIMES"):
            print("%5.1f s  %s" % (time.time() - start, b.where()))
        if os.environ.get("DOCS_SHOW"):
            print("== %s\n%s" % (b.where(), said))
        check("%s: %s" % (b.where(), b.text.strip().splitlines()[0]), failure and said + "\n" + failure)
        self.said = said
        if failure and "fails" not in b.words:
            self.dead[kind] = True

    def run(self):
        try:
            check("%s: names what is not there" % self.name, "\n".join(wrong_words(self.text)))
            check("%s: its length" % self.name, len(self.text.splitlines()) > 170 and self.name != "attacks.md" and "more than 170 lines")
            if self.name.startswith("trouble"):
                check("%s: headings that nothing prints" % self.name, "\n".join(unknown_messages(self.text)))
            for b in blocks_of(self.path, self.text):
                self.block(b)
        finally:
            for s in self.shells.values():
                s.end()
            if self.board:
                self.board.end()
            shutil.rmtree(self.home, ignore_errors=True)


# Pages with mistakes, each of which has to be found.
MISTAKES = {
    "an unknown option": "```sh\nhone tune model.onnx --no-such-option\n```\n",
    "an unknown command": "```sh\nhone polish model.onnx\n```\n",
    "a command that fails": "```sh\nhone inspect model.onnx\n```\n",
    "a command that should fail": "```sh fails\nhone version\n```\n",
    "another output": "```sh\nhone version\n```\n```text output\nhoney *\n```\n",
    "an unmarked block": "```\nhone version\n```\n",
    "an unknown kind": "```sh somewhere\nhone version\n```\n",
    "an option in the text": "Call `hone tune MODEL --no-such-option`.\n",
    "a file in the text": "See `configs/doc/none.md`.\n",
    "a page in the text": "See [this](none.md).\n",
    "a syntax error elsewhere": "This was not run:\n```sh elsewhere\nif true; then\n```\n",
    "silence about what was not run": "```sh elsewhere\ntrue\n```\n",
    "silence about make": "```sh source\nmake deb\n```\n",
    "a target that make does not have": "By `make -n`:\n```sh source\nmake no-such-target\n```\n",
    "a message that nothing prints": "## the moon is too bright\n",
}


def mistakes(build):
    """Each page of MISTAKES has to fail."""
    global good, bad
    import contextlib, io
    for what, text in MISTAKES.items():
        folder = tempfile.mkdtemp()
        path = folder + "/trouble-%s.md" % what.replace(" ", "-")
        write(path, text)
        was, said = (good, bad, dict(counts)), io.StringIO()
        with contextlib.redirect_stdout(said):
            Page(build, path, False).run()
        found, good, bad = bad > was[1], was[0], was[1]
        counts.update(was[2])
        check("a page with %s" % what, not found and "is thought to be good")
        shutil.rmtree(folder)


class Group:
    """A control group of this process's own below its present one: two containers in one group would end each other's services."""

    def __init__(self):
        self.back, self.own = [], []
        for line in read("/proc/self/cgroup").splitlines():
            _, name, path = line.split(":", 2)
            if name not in ("", "name=systemd"):
                continue
            for top in ("/sys/fs/cgroup/systemd",) if name else ("/sys/fs/cgroup/unified", "/sys/fs/cgroup"):
                folder = top + path.rstrip("/")
                if os.path.exists(folder + "/cgroup.procs"):
                    own = "%s/hone-docs-%d" % (folder, os.getpid())
                    os.mkdir(own)
                    write(own + "/cgroup.procs", str(os.getpid()))
                    self.back.append(folder), self.own.append(own)
                    break

    def end(self):
        for folder, own in zip(self.back, self.own):
            try:
                write(folder + "/cgroup.procs", str(os.getpid()))
                for d, _, _ in os.walk(own, topdown=False):
                    os.rmdir(d)
            except OSError:
                pass # an empty group costs nothing


def loopback_up():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    request = struct.pack("16sh", b"lo", 0x1 | 0x40) # IFF_UP, IFF_RUNNING
    fcntl.ioctl(s, 0x8914, request) # SIOCSIFFLAGS


def main():
    global PATH, SCRATCH
    build = os.path.realpath(sys.argv[1])
    board = "--board" in sys.argv
    pages = [a for a in sys.argv[2:] if a != "--board"] or sorted(glob.glob("configs/doc/*.md"))
    bin = tempfile.mkdtemp(prefix="hone-docs-")
    for p in PROGRAMS:
        os.symlink(build + "/" + p, bin + "/" + p)
    PATH = bin + ":" + os.environ["PATH"] + ":/usr/sbin:/sbin"
    SCRATCH = tempfile.mkdtemp(prefix="hone-docs-")
    group = None
    try:
        if board:
            run("mount", "--make-rprivate", "/")
            loopback_up()
            if shutil.which("systemd-nspawn") and shutil.which("nsenter") and os.path.exists("/lib/systemd/systemd"):
                run("mount", "-t", "tmpfs", "tmpfs", "/run")
                group = Group()
            else:
                board = False
        mistakes(build)
        for page in pages:
            Page(build, page, board).run()
    finally:
        shutil.rmtree(bin)
        shutil.rmtree(SCRATCH)
        if group:
            group.end()
    print("docs: %d blocks of commands were run, %d for elsewhere were parsed" % (counts["run"], counts["elsewhere"]))
    print("%d passed, %d failed, %d skipped" % (good, bad, skipped))
    return 1 if bad else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(main())
