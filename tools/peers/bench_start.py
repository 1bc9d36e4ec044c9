# SPDX-License-Identifier: Apache-2.0
"""How long from a process's start to the end of its first inference: libhone with a tuned cache and an image of the model,
and ONNX Runtime (its session's creation alone, without Python's start), by turns on one core with warm files.

bench_start.py --program START_HONE --hone HONE --out DIR [--model MODEL [--cache DIR]] [--rounds N] [--box SECONDS]

MODEL may be a folder that `hone compile` wrote. Loading is also compared with reading the image's file, as cat does.
"""
import argparse
import glob
import os
import subprocess
import sys
import time

import measure

ORT = """
import sys, time
import onnxruntime as ort
o = ort.SessionOptions()
o.intra_op_num_threads = o.inter_op_num_threads = 1
begin = time.perf_counter()
s = ort.InferenceSession(sys.argv[1], o, providers=["CPUExecutionProvider"])
made = time.perf_counter()
import numpy
x = {i.name: numpy.zeros([d if isinstance(d, int) else 1 for d in i.shape], "f4") for i in s.get_inputs()}
before = time.perf_counter()
s.run(None, x)
first = time.perf_counter()
best = 1e9
for _ in range(20):
    t = time.perf_counter()
    s.run(None, x)
    best = min(best, time.perf_counter() - t)
print(made - begin, first - before, best)
"""


def row(name, values, unit="ms"):
    print(f"{name:46} {min(values):8.2f} {measure.median(values):8.2f}  {unit}")


def start_hone(a):
    out = subprocess.run([a.program, a.model, a.cache], check=True, stdout=subprocess.PIPE).stdout.split()
    ns, steady, image, other, mapped, load_us = map(int, out)
    return ns / 1e6, steady / 1e6, image, other, mapped, load_us / 1e3


def read_ms(path):
    part = bytearray(128 << 10)
    begin = time.perf_counter()
    with open(path, "rb", buffering=0) as f:
        while f.readinto(part):
            pass
    return (time.perf_counter() - begin) * 1e3


def image_file(a):
    if os.path.isdir(a.model):
        return os.path.join(a.model, "plan.hone")
    return max(glob.glob(os.path.join(a.cache, "images", "*.image")), key=os.path.getmtime, default=None)


def verdict(ours, theirs, busy):
    """How much sooner libhone has answered; nothing, if the machine was busy."""
    if busy:
        return f"no verdict: the machine was busy ({busy}); run it again when the machine is idle"
    if not theirs:
        return None
    mid, low, high = measure.interval([(t[0] + t[1]) / o[0] for o, t in zip(ours, theirs)])
    figure = f"95 % interval {low:.2f} to {high:.2f}, {len(theirs)} rounds"
    if len(theirs) < 6 or low <= 1 <= high:
        return f"no significant difference between libhone's first answer and ONNX Runtime's ({mid:.2f} times as soon, {figure})"
    return f"libhone's first answer comes {mid:.2f} times as soon as ONNX Runtime's ({figure})"


def options():
    p = argparse.ArgumentParser()
    for name in ("--program", "--hone", "--out"):
        p.add_argument(name, required=True)
    p.add_argument("--model")
    p.add_argument("--cache")
    p.add_argument("--rounds", type=int, default=15)
    p.add_argument("--box", default="20s")
    return p.parse_args()


def bench(a):
    os.makedirs(a.out, exist_ok=True)
    if not a.model:
        a.model = os.path.join(a.out, "mobilenet_v2.onnx")
        subprocess.run([a.hone, "zoo", "-q", "mobilenet_v2", "-o", a.model], check=True)
    compiled = os.path.isdir(a.model)
    if compiled:
        a.cache = os.path.join(a.out, "no-cache")
    if not a.cache:
        a.cache = os.path.join(a.out, "cache")
        tune = [a.hone, "tune", a.model, "-q", "--budget", a.box, "--threads", "1", "--cache", a.cache]
        subprocess.run(tune, check=True, stdout=subprocess.DEVNULL)
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[-1:])
    no_image = start_hone(a)
    image = image_file(a)
    peer = not compiled and subprocess.run([sys.executable, "-c", "import onnxruntime"], stderr=subprocess.DEVNULL).returncode == 0
    ours, theirs, read = [], [], []
    watch = measure.Watch()
    for _ in range(a.rounds):
        ours.append(start_hone(a))
        if image:
            read.append(read_ms(image))
        if peer:
            out = subprocess.run([sys.executable, "-c", ORT, a.model], check=True, stdout=subprocess.PIPE).stdout
            theirs.append([float(x) * 1e3 for x in out.split()])
    busy = watch.end()["busy"]
    print(f"{a.model}, one core, {a.rounds} rounds by turns{'':8} least   median")
    row("libhone: process start to end of inference 1", [o[0] for o in ours])
    row("libhone: of it, hone_load", [o[5] for o in ours])
    row("libhone: one steady inference", [o[1] for o in ours])
    row("libhone: start less one steady inference", [o[0] - o[1] for o in ours])
    if image:
        mb = os.path.getsize(image) / 1e6
        row(f"reading the image's {mb:.1f} MB", read)
        row("hone_load against that", [o[5] / r for o, r in zip(ours, read)], "times")
    else:
        print(f"cache {a.cache} holds no image of the model, so each start made the model anew: is the folder writable, and "
              f"has it kernels for this machine? hone tune {a.model} --cache {a.cache} --threads 1 makes them")
    if not no_image[2]:
        row("libhone: the same without an image, once", [no_image[0]])
    if peer:
        row("ONNX Runtime: session creation", [t[0] for t in theirs])
        row("ONNX Runtime: inference 1", [t[1] for t in theirs])
        row("ONNX Runtime: one steady inference", [t[2] for t in theirs])
    else:
        print("ONNX Runtime is not there: make bench-peers installs it")
    print(f"from an image {sum(o[2] for o in ours)}/{len(ours)}, kernels not tuned {ours[-1][3]}, "
          f"LLVM, hwloc or a worker mapped: {'yes' if any(o[4] for o in ours) else 'no'}")
    say = verdict(ours, theirs, busy)
    if say:
        print(say)


def main():
    try:
        bench(options())
    except (OSError, subprocess.CalledProcessError) as e:
        sys.exit(f"bench-start: {e}")


if __name__ == "__main__":
    main()
