# SPDX-License-Identifier: Apache-2.0
"""Statistics of turns and processes that take them. Standard library only: tests run it without any peer."""
import json
import math
import os
import resource
import select
import subprocess
import time


def median(v):
    s = sorted(v)
    n = len(s)
    return s[n // 2] if n % 2 else (s[n // 2 - 1] + s[n // 2]) / 2


def quantile(v, q):
    """Nearest rank, as tools/hone/stats.c."""
    s = sorted(v)
    return s[min(len(s) - 1, max(0, math.ceil(q * len(s)) - 1))]


def interval_rank(n):
    """As interval_rank of platform/base/stats.c."""
    if n > 1000:
        return math.floor(n / 2 - 0.98 * math.sqrt(n))
    p = total = 0.5 ** n
    r = 0
    while 2 * total <= 0.05:
        r += 1
        p *= (n - r + 1) / r
        total += p
    return r


def interval(v):
    """Median and its 95 % interval by order statistics; all of them where there are fewer than 6."""
    s = sorted(v)
    r = max(1, interval_rank(len(s)))
    return median(s), s[r - 1], s[-r]


def geomean(v):
    v = list(v)
    return math.exp(sum(math.log(x) for x in v) / len(v)) if v else None


def batches(items, n):
    """Lists of at most n of the items, in order."""
    return [items[i:i + n] for i in range(0, len(items), n)]


def ratios(base, other):
    """Per round: median of other's turn / median of base's turn. Rounds that either missed are left out."""
    return [median(o) / median(b) for b, o in zip(base, other) if b and o]


SHARE_PCT, OTHERS_PCT = 90, 25  # as platform/machine/disturb.h


def stat_busy(text):
    """Seconds of processor time of all processors in /proc/stat, and how long they idled or waited for io."""
    f = [int(x) for x in text.split("\n", 1)[0].split()[1:9]] + [0] * 8
    return (sum(f[:8]) - f[3] - f[4]) / 100


class Watch:
    """What disturbs a measurement of these processes, and of children that end meanwhile: the share of the processor
    time that the processes wanted and got, and what others used, in % of one processor. root stands for the machine."""

    def __init__(self, pids=(), root=""):
        self.pids, self.root = list(pids), root
        self.at, self.began = time.monotonic(), self.look()

    def read(self, path):
        try:
            with open(self.root + path) as f:
                return f.read()
        except OSError:
            return ""

    def threads(self):
        """ns that the threads of the processes ran, and that they waited for a processor."""
        ran = waited = 0
        for pid in self.pids:
            try:
                tasks = os.listdir(f"{self.root}/proc/{pid}/task")
            except OSError:
                continue
            for t in tasks:
                v = self.read(f"/proc/{pid}/task/{t}/schedstat").split()
                if len(v) >= 2:
                    ran, waited = ran + int(v[0]), waited + int(v[1])
        return ran, waited

    def look(self):
        stat, own = self.read("/proc/stat"), resource.getrusage(resource.RUSAGE_SELF)
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        ran, waited = self.threads()
        return {"busy": stat_busy(stat) if stat.startswith("cpu ") else None, "ran": ran, "waited": waited,
                "own": own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime + ran / 1e9}

    def end(self):
        """{"share_pct", "others_pct", "busy"}: None where it is not known; busy says in words what is too much, or is None."""
        now, then, wall = self.look(), self.began, time.monotonic() - self.at
        ran, waited = now["ran"] - then["ran"], max(0, now["waited"] - then["waited"])
        share = 100 * ran / (ran + waited) if ran > 0 else None
        known = now["busy"] is not None and then["busy"] is not None and wall >= 0.2
        others = max(0, 100 * (now["busy"] - then["busy"] - (now["own"] - then["own"])) / wall) if known else None
        return {"share_pct": share, "others_pct": others, "busy": busy_words(share, others)}


def busy_words(share, others):
    words = []
    if share is not None and share < SHARE_PCT:
        words.append(f"the measured processes got {share:.0f} % of the processor time that they wanted")
    if others is not None and others > OTHERS_PCT:
        words.append(f"others used {others:.0f} % of a processor")
    return "; ".join(words) or None


class Dead(Exception):
    """A process that ended, said `error`, or did not answer in time; the text says why."""


class Runner:
    """A process that keeps a model ready. Line protocol of tools/bench/bench_net.c: a first line `ready {JSON}` or
    `error TEXT`, then `turn MS` is answered by the ns of every run."""

    def __init__(self, name, command, cpus, env=None, log=None):
        self.name, self.ready, self.buf = name, None, b""
        self.log = open(log or os.devnull, "wb")
        self.p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
                                  env={**os.environ, **(env or {})},
                                  preexec_fn=lambda: os.sched_setaffinity(0, cpus))

    def line(self, timeout_s):
        end = time.monotonic() + timeout_s
        while b"\n" not in self.buf:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.p.stdout], [], [], left)[0]:
                raise Dead(f"no answer within {timeout_s:.0f} s")
            chunk = os.read(self.p.stdout.fileno(), 1 << 16)
            if not chunk:
                raise Dead(self.why())
            self.buf += chunk
        line, self.buf = self.buf.split(b"\n", 1)
        return line.decode(errors="replace")

    def why(self):
        """How it ended, with the last words of its standard error."""
        code = self.p.wait()
        how = f"killed by signal {-code}" if code < 0 else f"ended with status {code}"
        try:
            with open(self.log.name, errors="replace") as f:
                words = [w.strip() for w in f.read().splitlines() if w.strip()]
        except OSError:
            words = []
        return how + (": " + words[-1][:200] if words else "")

    def wait_ready(self, timeout_s):
        """The JSON of the `ready` line. What libraries print before it is passed over."""
        end = time.monotonic() + timeout_s
        while True:
            line = self.line(max(0.01, end - time.monotonic()))
            if line.startswith("ready "):
                self.ready = json.loads(line[6:])
                return self.ready
            if line.startswith("error "):
                raise Dead(line[6:])

    def turn(self, ms, timeout_s=60):
        try:
            self.p.stdin.write(f"turn {ms}\n".encode())
            self.p.stdin.flush()
        except OSError:
            raise Dead(self.why()) from None
        return parse_turn(self.line(timeout_s))

    def close(self):
        try:
            self.p.stdin.write(b"quit\n")
            self.p.stdin.close()
        except OSError:
            pass
        try:
            self.p.wait(5)
        except subprocess.TimeoutExpired:
            self.p.kill()
            self.p.wait()
        self.p.stdout.close()
        self.log.close()


def parse_turn(line):
    if line.startswith("error "):
        raise Dead(line[6:])
    try:
        ns = [float(w) for w in line.split()]
    except ValueError:
        ns = []
    if not ns or min(ns) <= 0:
        raise Dead(f"'{line[:60]}' is not the times of a turn")
    return ns


def interleave(runners, seconds, turn_ms, pause_s, say=None):
    """Rounds in which every runner takes one turn, each round beginning with another one, until seconds are over and
    at least 5 rounds are done (3 where one run is slow). The first run of a turn warms the caches that the
    others used and is not counted, where there are more. Returns ({name: [ns of a turn, ...]}, {name: why dead})."""
    turns = {r.name: [] for r in runners}
    dead = {}
    start = time.monotonic()
    done = 0
    while done < 3 or (time.monotonic() - start < seconds * len(runners) and done < 400):
        for r in runners[done % len(runners):] + runners[:done % len(runners)]:
            ns = []
            if r.name not in dead:
                try:
                    ns = r.turn(turn_ms)
                except Dead as e:
                    dead[r.name] = str(e)
            turns[r.name].append(ns[1:] if len(ns) > 1 else ns)
            if pause_s:
                time.sleep(pause_s)
        done += 1
        if say:
            say(done)
    return turns, dead


def summary(turns, base):
    """p50, p90 (ms) over all runs, and the ratio to base with its interval, rounds against rounds."""
    rows = {}
    for name, t in turns.items():
        runs = [x for turn in t for x in turn]
        if not runs:
            continue
        row = {"p50_ms": median(runs) / 1e6, "p90_ms": quantile(runs, 0.9) / 1e6, "min_ms": min(runs) / 1e6,
               "runs": len(runs), "turns": sum(1 for x in t if x)}
        r = ratios(turns[base], t) if base in turns else []
        if r:
            row["ratio"], row["ratio_low"], row["ratio_high"] = interval(r)
        rows[name] = row
    return rows
