# SPDX-License-Identifier: Apache-2.0
"""Statistics of turns and processes that take them. Standard library only: tests run it without any peer."""
import json
import math
import os
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


def ratios(base, other):
    """Per round: median of other's turn / median of base's turn. Rounds that either missed are left out."""
    return [median(o) / median(b) for b, o in zip(base, other) if b and o]


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
