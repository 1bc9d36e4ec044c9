# SPDX-License-Identifier: Apache-2.0
"""The part that all peers share: a process that keeps one model ready and runs it when told (measure.Runner).

A peer is one file peer_NAME.py with
    VERSION            text
    SETTINGS           list of settings to try; the fastest is kept, so that the peer is measured at its best
    load(job, setting) -> (run, outputs): run() is one inference on the inputs of the job, outputs() the arrays
                       of the last run in the order of the model's outputs
and ends with peer.serve(sys.modules[__name__]). The job is a JSON file: model, threads, inputs [[name, file.npy]],
output names, output folder, scratch folder, tuning budget in seconds. Whatever goes wrong is one line
`error TEXT`."""
import json
import os
import sys
import time
import traceback

import numpy as np

MAX_RUNS = 4000
TRY_S, TRY_ROUNDS = 0.1, 4  # of each setting


def job_inputs(job):
    return [(name, np.ascontiguousarray(np.load(path))) for name, path in job["inputs"]]


def timed(run, seconds, most=MAX_RUNS):
    now = time.perf_counter_ns
    ns, end = [], now() + int(seconds * 1e9)
    while True:
        start = now()
        run()
        t = now()
        ns.append(t - start)
        if t >= end or len(ns) >= most:
            return ns


def choose(mod, job):
    """The fastest of the settings that load, by the best median of several turns. One that a library refuses is no
    error; that all fail is one."""
    loaded, failed = [], []
    for setting in mod.SETTINGS:
        try:
            run, outputs = mod.load(job, setting)
            run()
            run()
            loaded.append([float("inf"), setting, run, outputs])
        except Exception as e:  # noqa: BLE001
            traceback.print_exc()
            failed.append(" ".join(str(e).split())[:200] or type(e).__name__)
    if not loaded:
        raise RuntimeError("; ".join(dict.fromkeys(failed)))
    for _ in range(TRY_ROUNDS if len(loaded) > 1 else 0):
        for s in loaded:
            ns = timed(s[2], TRY_S)
            s[0] = min(s[0], sorted(ns)[len(ns) // 2])
    return min(loaded, key=lambda s: s[0])


def serve(mod):
    # What a library prints must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        with open(sys.argv[1]) as f:
            job = json.load(f)
        start = time.monotonic()
        _, setting, run, outputs = choose(mod, job)
        run()
        files = []
        for i, v in enumerate(outputs()):
            files.append(os.path.join(job["out"], f"{i}.npy"))
            np.save(files[-1], np.asarray(v))
        tuned = getattr(mod, "TUNED_S", 0)
        print("ready", json.dumps({"version": mod.VERSION, "setting": str(setting), "outputs": files,
                                   "load_s": time.monotonic() - start, "tuning_s": tuned}), file=answers, flush=True)
        for line in sys.stdin:
            word = line.split()
            if word[:1] != ["turn"]:
                break
            print(*timed(run, float(word[1]) / 1e3), file=answers, flush=True)
    except Exception as e:  # noqa: BLE001
        traceback.print_exc()
        print("error", " ".join(str(e).split())[:300] or type(e).__name__, file=answers, flush=True)
        sys.exit(1)
    os._exit(0)  # some libraries crash while they are taken down
