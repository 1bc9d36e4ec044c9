# SPDX-License-Identifier: Apache-2.0
"""Silero VAD's models, frame by frame with carried state, beside ONNX Runtime: silero.py FOLDER (see silero.sh)."""
import glob
import os
import sys

os.environ.setdefault("HONE_LIBRARY", "build/libhone.so")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/python"))

import hone  # noqa: E402
import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402

FRAMES, GATE, FLOOR = 40, 2e-4, 1e-6
good = bad = 0


def expect(what, condition):
    global good, bad
    good += bool(condition)
    bad += not condition
    if not condition:
        print(f"silero: not so: {what}")


def sound(kind, n, rate):
    """Silence, noise, or tones that swell like syllables."""
    rng = np.random.default_rng(kind)
    t = np.arange(n) / rate
    tones = sum(np.sin(2 * np.pi * f * t) for f in rng.uniform(90, 900, 5)) / 8 * (1 + np.sin(2 * np.pi * 4 * t))
    return [np.zeros(n), rng.normal(0, 0.3, n), tones + rng.normal(0, 0.01, n)][kind % 3].astype(np.float32)


def off(reference, got):
    """The error in units of the gate; a wrong shape is infinitely wrong."""
    if reference.shape != got.shape or not np.isfinite(got).all():
        return np.inf
    return float(np.max(np.abs(reference - got)) / (GATE * np.max(np.abs(reference)) + FLOOR))


def session(path):
    o = onnxruntime.SessionOptions()
    o.intra_op_num_threads = o.inter_op_num_threads = 1
    o.log_severity_level = 3
    return onnxruntime.InferenceSession(path, o, providers=["CPUExecutionProvider"])


def check(path, rate, batch):
    n = 576 if rate == 16000 else 288
    theirs = session(path)
    names = [i.name for i in theirs.get_inputs()]
    shapes = {"input": (batch, n), "state": (2, batch, 128)}
    if "sr" in names:
        shapes["sr"] = rate
    ours = hone.load(path, shapes=shapes, caches=[], threads=1)
    worst, spread = 0, 0
    for kind in range(3):
        x = sound(kind, n * FRAMES, rate)
        a = b = np.zeros((2, batch, 128), np.float32)
        for i in range(FRAMES):
            frame = np.stack([x[i * n : (i + 1) * n] * (k + 1) for k in range(batch)])
            fed = {"input": frame, "state": a, "sr": np.array(rate, np.int64)}
            p, a = theirs.run(None, {k: v for k, v in fed.items() if k in names})
            q, b = (np.array(v) for v in ours(frame, b))
            worst = max(worst, off(p, q), off(a, b))
            spread = max(spread, float(np.max(np.abs(p))))
    what = f"{os.path.relpath(path, sys.argv[1])} at {rate} Hz, {batch} at once"
    print(f"{what}: {worst:.3f} of the gate, probabilities up to {spread:.3f}")
    expect(what, worst <= 1 and spread > 0)


def refuses(path):
    """Without a rate the model's branches depend on data: the error says how to give one."""
    try:
        hone.load(path, shapes={"input": (1, 576), "state": (2, 1, 128)}, caches=[], threads=1)
        expect(f"{path} without sr is refused", False)
    except hone.Error as e:
        expect(f"{path}: {e}", "depends on data" in str(e) and "'sr'" in str(e))


found = sorted(glob.glob(os.path.join(sys.argv[1], "*/silero_vad/data/*.onnx")))
expect(f"models in {sys.argv[1]}", found)
for model in found:
    file = os.path.basename(model)
    if "sequence" in file:  # other inputs, and no control flow
        continue
    has_sr = "sr" in [i.name for i in session(model).get_inputs()]
    for rate in [16000, 8000] if has_sr and "16k" not in file else [16000]:
        check(model, rate, 1)
    if file == "silero_vad.onnx":
        check(model, 16000, 3)
        refuses(model)
print(f"{good} passed, {bad} failed, 0 skipped")
sys.exit(bad > 0)
