# SPDX-License-Identifier: Apache-2.0
"""make bench-peers: hone against other libraries, on one machine in one run.

Every library keeps the model ready in a process of its own, pinned to the same processors, and they take turns in
short slices, so that a neighbour's load hits all alike; what is compared are ratios of neighbouring turns. Each runs
at its best settings (peer_*.py). The peers are called through their Python packages; so is hone, where a run takes less
than 0.1 ms and the call counts (binding_hone.py), else from C. Writes BUILD/peers/peers.json and peers.svg and the page
of results (--page; tools/peers/RESULTS.md is one of them), and prints a table. Networks that were measured while the
machine was busy get no verdict."""
import argparse
import json
import os
import platform
import subprocess
import sys
import time

import measure
import nets
import report

NETWORK = ["onnxruntime", "openvino", "ncnn", "mnn", "opencv", "tvm"]  # run models: peer_NAME.py
KERNELS = ["onednn", "xnnpack", "openblas"]  # have kernels: chain_NAME.c runs a network's convolutions and products
PEERS = NETWORK + KERNELS
INT8 = ["onnxruntime", "openvino"]  # run QDQ models as integers
KINDS = ["best", "exact", "w16", "half", "half-sum", "default", "fallback"]
TUNED = KINDS[:5]
BOUND = TUNED + ["fallback"]  # what hone's Python package can run
SMALL_NS = 1e5
PACKAGE = {"mnn": "MNN", "opencv": "opencv-python-headless", "tvm": "apache-tvm"}
HERE = os.path.dirname(os.path.abspath(__file__))


def options(argv):
    p = argparse.ArgumentParser(prog="make bench-peers ARGS=", description=__doc__.split("\n")[0])
    p.add_argument("networks", nargs="*", help="all, or some of: " + " ".join(nets.ZOO + list(nets.DATA)))
    p.add_argument("--threads", default="1,4", help="numbers of threads (default 1,4)")
    p.add_argument("--budget", type=float, help="seconds of tuning a network for hone (default 60; --short: 5)")
    p.add_argument("--tvm-budget", type=float, default=600, help="seconds of tuning a network for TVM (default 600)")
    p.add_argument("--seconds", type=float, help="of measuring for each library and network (default 4; --short: 1)")
    p.add_argument("--peers", default=",".join(PEERS), help="default: " + ",".join(PEERS))
    p.add_argument("--kernels", default="best,exact,default,fallback", help="hone's, the first is the one that peers are compared with; exact: "
                   "tuned with --exact, at the same time on other processors, where there are as many; w16: with weights of 16 bits; half: with products of 16 bits; half-sum: also summed in 16 bits "
                   "(default best,exact,default,fallback)")
    p.add_argument("--int8", action="store_true", help="instead: each network as int8 (QDQ, made by onnxruntime.quantization) beside "
                   "hone's fp32 and the peers that run it as integers")
    p.add_argument("--short", action="store_true", help="fewer networks, small budgets, no TVM")
    p.add_argument("--keep", action="store_true", help="keep what hone tuned in an earlier run, tune nothing")
    p.add_argument("--page", help="page of results to write (default BUILD/peers/RESULTS.md)")
    p.add_argument("--build", default=os.environ.get("BUILD", "build"), help="build folder (default build)")
    a = p.parse_args(argv)
    a.threads = [int(t) for t in a.threads.split(",")]
    a.kernels = a.kernels.split(",")
    a.peers = [x for x in a.peers.split(",") if x and not (a.short and x == "tvm")]
    a.budget = a.budget or (5 if a.short else 60)
    a.seconds = a.seconds or (1 if a.short else 4)
    a.networks = a.networks or (nets.SHORT if a.short else nets.known())
    unknown = [n for n in a.networks if n not in nets.known()] + [x for x in a.peers if x not in PEERS] + \
        [k for k in a.kernels if k not in KINDS] + [t for t in a.threads if t < 1]
    if unknown:
        p.error(f"unknown: {unknown[0]} (networks here: {' '.join(nets.known())})")
    return a


def missing(build):
    """{peer: why} of what tests/sh/peers.sh could not install."""
    why = {}
    path = os.path.join(build, "peers", "missing")
    lines = open(path).read().splitlines() if os.path.exists(path) else []
    for line in lines:
        package, _, reason = line.partition(" ")
        for p in PEERS:
            if PACKAGE.get(p, p) == package or (p == "ncnn" and package == "pnnx"):
                why[p] = f"{package} cannot be had: {reason}"
    return why


def runner_name(kind):
    return "hone" if kind == "best" else f"hone {kind}"


def plan(kind):
    """What hone's commands call these kernels."""
    return "best" if kind in TUNED else kind


def small(ns):
    """Whether the runs of a turn are so short that the call from Python counts."""
    return measure.median(ns[1:] or ns) < SMALL_NS


def level(kind):
    return ["--level", kind] if kind in TUNED[1:] else []


def say(text):
    print(text, file=sys.stderr, flush=True)


class Bench:
    def __init__(self, a):
        self.a = a
        self.root = os.path.join(a.build, "peers")
        self.hone = os.path.abspath(os.path.join(a.build, "hone"))
        self.missing = missing(a.build)
        self.cpus = sorted(os.sched_getaffinity(0))
        self.out = {"cpu": cpu_field("model name", "Model") or platform.machine(), "system": platform.platform(), "cpus": self.cpus, "python": platform.python_version(),
                    "clock_mhz": cpu_field("cpu MHz"), "date": time.strftime("%Y-%m-%d %H:%M"), "budget_s": None if a.keep else a.budget,
                    "machine": machine(self.hone), "versions": {"hone": version(self.hone)}, "settings": {},
                    "left_out": {p: w for p, w in self.missing.items() if p in a.peers}, "results": []}

    def cache(self, job, threads, kind):
        return os.path.join(job["folder"], f"cache-{threads}{'-' + kind if kind in TUNED[1:] else ''}")

    def kinds(self, threads):
        """hone's kernels at this number of threads: exact ones only where their tuning, if any, is alone on its processors."""
        room = self.a.keep or "best" not in self.a.kernels or 2 * threads <= len(self.cpus)
        return [k for k in self.a.kernels if k != "exact" or room]

    def tune(self, job, threads):
        """{runner: seconds}: as many kinds at the same time as there are processors for, each on its own."""
        kinds = [] if self.a.keep else [k for k in self.kinds(threads) if k in TUNED]
        seconds = {}
        for some in measure.batches(kinds, max(1, len(self.cpus) // threads)):
            seconds.update(self.tune_some(job, threads, some))
        return seconds

    def tune_some(self, job, threads, kinds):
        began = {}
        for n, kind in enumerate(kinds):
            cpus = self.cpus[n * threads:(n + 1) * threads]
            cache = self.cache(job, threads, kind)
            subprocess.run(["rm", "-rf", cache], check=True)
            cmd = [self.hone, "tune", job["model"], "--budget", f"{self.a.budget}s", "--threads", str(threads), "--cache",
                   cache, "--json", "-q"] + level(kind)
            began[runner_name(kind)] = subprocess.Popen(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                                        preexec_fn=lambda c=cpus: os.sched_setaffinity(0, c))
        seconds = {}
        for name, p in began.items():
            try:
                out, err = p.communicate(timeout=self.a.budget + 120)
            except subprocess.TimeoutExpired:
                p.kill()
                out, err = p.communicate()
            if p.returncode:
                say(f"{job['name']}: {name}: hone tune: {err.strip().splitlines()[-1:]}")
            else:
                seconds[name] = json.loads(out)["elapsed_s"]
        return seconds

    def start_hone(self, job, kind, threads, cpus):
        name = runner_name(kind)
        cmd = [os.path.join(self.a.build, "tools", "bench_net"), job["model"], "--kernels", plan(kind), "--threads",
               str(threads), "--cache", self.cache(job, threads, kind), "--output", os.path.join(job["folder"], name), "--json"]
        cmd += level(kind)
        for i in job["inputs"]:
            cmd += ["--input", "=".join(i)]
        return measure.Runner(name, cmd, cpus, {"HONE_WORKER": self.hone + "-worker"},
                              os.path.join(job["folder"], name + ".log"))

    def start_binding(self, job, kind, threads, cpus):
        """hone's Python package instead of bench_net."""
        scratch = os.path.join(job["folder"], "binding-" + kind)
        os.makedirs(scratch, exist_ok=True)
        path = os.path.join(scratch, f"job-{threads}.json")
        with open(path, "w") as f:
            json.dump({**job, "threads": threads, "scratch": scratch, "out": scratch, "level": kind if kind in TUNED[1:] else "fp32",
                       "cache": self.cache(job, threads, kind) if kind in TUNED else None}, f)
        env = {"HONE_LIBRARY": os.path.abspath(os.path.join(self.a.build, "libhone.so")), "PYTHONDONTWRITEBYTECODE": "1"}
        return measure.Runner(runner_name(kind), [sys.executable, os.path.join(HERE, "binding_hone.py"), path], cpus, env,
                              os.path.join(scratch, "log"))

    def by_binding(self, job, hones, threads, cpus, row):
        """For a small model: [(kind, runner)] through the Python package; the first kind also as called from C, and those
        that the package cannot run only so, under names that no verdict counts."""
        out = []
        for i, (kind, r) in enumerate(hones):
            b = self.ready(self.start_binding(job, kind, threads, cpus), 120, row) if kind in BOUND else None
            if b:
                out.append(b)
            if i == 0 or kind not in BOUND:
                r.name += " in C"
                out.append(r)
            else:
                r.close()
        row["called"] = "Python"
        return out

    def start_peer(self, job, peer, threads, cpus):
        scratch = os.path.join(job["folder"], peer)
        os.makedirs(scratch, exist_ok=True)
        path = os.path.join(scratch, f"job-{threads}.json")
        with open(path, "w") as f:
            json.dump({**job, "threads": threads, "scratch": scratch, "out": scratch, "tune_s": self.a.tvm_budget}, f)
        env = {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        return measure.Runner(peer, [sys.executable, os.path.join(HERE, f"peer_{peer}.py"), path], cpus, env,
                              os.path.join(scratch, "log"))

    def start_chain(self, job, peer, threads, cpus):
        env = {"OMP_NUM_THREADS": str(threads), "OMP_PROC_BIND": "close"}
        if "avx512f" in cpu_field("flags").split():
            env["OPENBLAS_CORETYPE"] = "SKYLAKEX"  # one that does not know the processor falls back to AVX2
        return measure.Runner(peer + " kernels", [os.path.join(self.root, "chain_" + peer), job["layers"], str(threads)], cpus,
                              env, os.path.join(job["folder"], peer + ".log"))

    def ready(self, r, timeout_s, row):
        """The runner, once it is ready; None: it failed."""
        try:
            r.wait_ready(timeout_s)
            return r
        except measure.Dead as e:
            row["failed"][r.name] = str(e)
            r.close()
            return None

    def start(self, job, threads, cpus, row):
        """Everything that becomes ready, one after the other: loading is not measured and must not disturb."""
        hones = [(k, self.ready(self.start_hone(job, k, threads, cpus), 120, row)) for k in self.kinds(threads)]
        hones = [(k, r) for k, r in hones if r]
        row["called"] = "C"
        if hones and small(hones[0][1].turn(30)):
            runners = self.by_binding(job, hones, threads, cpus, row)
        else:
            runners = [r for _, r in hones]
        if job.get("fp32"):
            r = self.start_hone(job["fp32"], "best", threads, cpus)
            r.name = report.FP32
            runners.append(self.ready(r, 120, row))
        for p in [p for p in self.a.peers if p not in self.missing and (p in INT8 or not job.get("fp32"))]:
            start = self.start_peer if p in NETWORK else self.start_chain
            runners.append(self.ready(start(job, p, threads, cpus), 120 + (self.a.tvm_budget * 1.5 if p == "tvm" else 0), row))
        return [r for r in runners if r]

    def errors(self, job, runners):
        files = {r.name: [o["file"] if isinstance(o, dict) else o for o in r.ready["outputs"]] for r in runners}
        ref = job["ref"] or files.get("hone") or next(iter(files.values()), [])
        return {n: nets.max_error(f, ref) for n, f in files.items()}

    def network(self, job, threads):
        cpus = self.cpus[:threads]
        row = {"network": job["name"], "threads": threads, "failed": {}, "error_against": "reference" if job["ref"] else "hone"}
        row["tuning_s"] = self.tune(job, threads)
        if {"half", "half-sum"} & set(self.a.kernels):
            row["wrong"] = report.WRONG_HALF
        if job.get("fp32"):
            row["wrong"] = report.WRONG_INT8
            row["tuning_s"][report.FP32] = self.tune(job["fp32"], threads).get("hone")
        runners = self.start(job, threads, cpus, row)
        try:
            errors = self.errors(job, runners)
            for r in runners:
                if r.ready.get("version"):
                    self.out["versions"].setdefault(r.name.split()[0], r.ready["version"])
                if "setting" in r.ready:
                    self.out["settings"].setdefault(r.name, {})[f"{job['name']} {threads}"] = r.ready["setting"]
                if r.ready.get("tuning_s"):
                    row["tuning_s"][r.name] = r.ready["tuning_s"]
                if "peak_gflops" in r.ready:
                    row["peak_gflops"] = r.ready["peak_gflops"]
            # Threads of a library that spin after a call would take the next one's time.
            watch = measure.Watch([r.p.pid for r in runners])
            turns, dead = measure.interleave(runners, self.a.seconds, 30, 0.01 if threads > 1 else 0)
            row["machine"] = watch.end()
            row["failed"].update(dead)
            row["runs"] = measure.summary(turns, next((r.name for r in runners if not report.is_peer(r.name)), ""))
            for n, e in errors.items():
                if n in row["runs"]:
                    row["runs"][n]["max_error"] = e
        finally:
            for r in runners:
                r.close()
        kernels = self.kernels(job, threads, cpus)
        row["kernels"] = report.far(kernels)
        shares, below = report.roofline(kernels)
        row["roofline"] = {"shares": shares, "below": below}
        return row

    def kernels(self, job, threads, cpus):
        kind = self.kinds(threads)[0]
        cmd = [self.hone, "bench", job["model"], "--kernels", plan(kind), "--threads", str(threads), "--cache",
               self.cache(job, threads, kind), "--runs", "20", "--json", "-q"] + level(kind)
        p = subprocess.run(cmd, capture_output=True, text=True, check=False,
                           preexec_fn=lambda: os.sched_setaffinity(0, cpus))
        return json.loads(p.stdout)["kernels"] if p.returncode == 0 else []

    def run(self):
        for name in self.a.networks:
            try:
                job = (nets.prepare_int8 if self.a.int8 else nets.prepare)(name, self.root, self.hone)
            except Exception as e:  # noqa: BLE001: one network must not end the run
                self.out["left_out"][name] = f"cannot be prepared: {e}"
                continue
            for threads in self.a.threads:
                if threads > len(self.cpus):
                    self.out["left_out"][f"{threads} threads"] = f"{len(self.cpus)} processors"
                    continue
                row = self.network(job, threads)
                self.out["results"].append(row)
                print(report.network_text(row), flush=True)
        return self.out


def cpu_field(*names):
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith(names):
                return line.split(":", 1)[1].strip()
    return ""


def command(*cmd):
    p = subprocess.run(cmd, capture_output=True, text=True, check=False)
    return p.stdout.strip() if p.returncode == 0 else ""


def version(hone):
    return command(hone, "--version").replace("hone ", "")


def machine(hone):
    """Peaks and clock as hone measures them."""
    text = command(hone, "devices", "--json", "-q")
    return json.loads(text) if text else {}


def main():
    a = options(sys.argv[1:])
    b = Bench(a)
    out = b.run()
    print(report.summary_text(out))
    page = a.page or os.path.join(b.root, "RESULTS.md")
    for path, text in ((os.path.join(b.root, "peers.json"), json.dumps(out, indent=1)),
                       (os.path.join(b.root, "peers.svg"), report.svg(out)), (page, report.page(out))):
        with open(path, "w") as f:
            f.write(text + "\n")
    say(f"wrote {b.root}/peers.json, {b.root}/peers.svg and {page}")


if __name__ == "__main__":
    main()
