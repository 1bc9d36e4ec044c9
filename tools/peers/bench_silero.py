# SPDX-License-Identifier: Apache-2.0
"""make bench-silero: Silero VAD's frames beside ONNX Runtime, in turns in one process: FOLDER of tests/sh/silero.sh. Each model
is timed without a cache and after `hone tune` in a box."""
import argparse
import glob
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

import bench_untuned
import hone
import numpy
import onnxruntime

RATE, FRAME = 16000, 576


def options(argv):
    p = argparse.ArgumentParser(prog="make bench-silero ARGS=", description=__doc__.split(":")[1].strip())
    p.add_argument("folder")
    p.add_argument("--budget", default="5s", help="box of hone tune (default 5s)")
    p.add_argument("--seconds", type=float, default=3, help="of measuring for each model (default 3)")
    p.add_argument("--build", default=os.environ.get("BUILD", "build"))
    return p.parse_args(argv)


def session(path):
    o = onnxruntime.SessionOptions()
    o.intra_op_num_threads = o.inter_op_num_threads = 1
    o.log_severity_level = 3
    return onnxruntime.InferenceSession(path, o, providers=["CPUExecutionProvider"])


def main(argv):
    a = options(argv)
    found = sorted(glob.glob(os.path.join(a.folder, "*/silero_vad/data/silero_vad.onnx")))
    if not found:
        sys.exit(f"bench-silero: no models in {a.folder}")
    for path in found:
        theirs = session(path)
        feed = {"input": numpy.random.RandomState(1).randn(1, FRAME).astype("f4") / 8,
                "state": numpy.zeros((2, 1, 128), "f4"), "sr": numpy.array(RATE, "i8")}
        shapes = {"input": (1, FRAME), "state": (2, 1, 128), "sr": RATE}
        with tempfile.TemporaryDirectory(prefix="bench-silero-") as cache:
            given = [f"--shape=input=1x{FRAME}", "--shape=state=2x1x128", f"--shape=sr={RATE}"]
            subprocess.run([os.path.join(a.build, "hone"), "tune", path, "-q", "--threads", "1", "--budget", a.budget,
                            "--cache", cache] + given, check=True, stdout=subprocess.DEVNULL)
            plain, tuned = (hone.load(path, shapes=shapes, caches=c, threads=1) for c in ([], [cache]))
            want = theirs.run(None, feed)
            for model in plain, tuned:
                for got, w in zip(model(feed["input"], feed["state"]), want):
                    if not numpy.abs(numpy.asarray(got) - w).max() <= 2e-4 * numpy.abs(w).max() + 1e-6:
                        sys.exit(f"bench-silero: {path}: a wrong answer")
            runs = [lambda: plain(feed["input"], feed["state"]), lambda: tuned(feed["input"], feed["state"]),
                    lambda: theirs.run(None, feed)]
            p, t, o = (1e6 * x for x in bench_untuned.turns(runs, a.seconds, 1))
        print(f"{os.path.relpath(path, a.folder).split('/')[0]:8} ONNX Runtime {o:6.1f} us, hone untuned {p:6.1f} ({o / p:.2f}x), "
              f"after {a.budget} {t:6.1f} ({o / t:.2f}x)")


if __name__ == "__main__":
    main(sys.argv[1:])
