# SPDX-License-Identifier: Apache-2.0
"""make bench-untuned: libhone without any tuned kernel against ONNX Runtime, through the Python binding of each, by turns in one
process: networks of the data folder, then random operators (random_ops.py). Answers are compared before times are. Prints the
time ratio of each network, the operators above the limit, and geometric means; a run in which this process had less than 90 %
of its processors is marked as disturbed."""
import argparse
import glob
import json
import os
import sys
import tempfile
import time

import measure
import nets

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))


def options(argv):
    p = argparse.ArgumentParser(prog="make bench-untuned ARGS=", description=__doc__.split(":")[1].strip())
    p.add_argument("networks", nargs="*", help="names of folders with a model.onnx (default: all of the data folder)")
    p.add_argument("--operators", type=int, default=500, help="random operators (default 500)")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--seconds", type=float, default=1.5, help="of measuring for each network (default 1.5); operators get a tenth")
    p.add_argument("--limit", type=float, default=3, help="time ratio above which an operator is listed (default 3); a difference "
                   "below 20 us passes")
    p.add_argument("--build", default=os.environ.get("BUILD", "build"))
    return p.parse_args(argv)


def turns(run, seconds, threads):
    """Medians of each function's time over interleaved turns. Threads of the other library spin for some 50 ms after its turn:
    before a turn of several threads they get time to sleep, and a call that is not counted wakes the own ones."""
    once = []
    for f in run:
        f()
        begin = time.perf_counter()
        f()
        once.append(time.perf_counter() - begin)
    again = [max(1, int(2e-4 / max(t, 1e-7))) for t in once]
    times = [[] for _ in run]
    gap = .1 if threads > 1 and max(once) > 1e-4 else 0  # shorter runs wake no threads
    for _ in range(max(5, min(200, int(seconds / sum(gap + t * n for t, n in zip(once, again)))))):
        for f, n, out in zip(run, again, times):
            if gap:
                time.sleep(gap)
                f()
            begin = time.perf_counter()
            for _ in range(n):
                f()
            out.append((time.perf_counter() - begin) / n)
    return [measure.median(t) for t in times]


class Bench:
    def __init__(self, a):
        import hone
        import numpy
        import onnxruntime
        self.a, self.hone, self.np, self.ort = a, hone, numpy, onnxruntime
        self.empty = tempfile.mkdtemp(prefix="bench-untuned-")
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def session(self, model):
        o = self.ort.SessionOptions()
        o.intra_op_num_threads, o.inter_op_num_threads, o.log_severity_level = self.a.threads, 1, 4
        return self.ort.InferenceSession(model, o, providers=["CPUExecutionProvider"])

    def compare(self, session, model, inputs, seconds):
        """{"hone_ms", "ort_ms", "load_ms"}, or {"wrong": why}."""
        feed = {i.name: x for i, x in zip(session.get_inputs(), inputs)}
        want = session.run(None, feed)
        begin = time.perf_counter()
        mine = self.hone.load(model, threads=self.a.threads, caches=[self.empty],
                              shapes={i.name: x.shape for i, x in zip(session.get_inputs(), inputs)})
        load = time.perf_counter() - begin
        for got, w in zip(mine.run(*inputs), want):
            worst = self.np.abs(self.np.asarray(got, "f8") - w).max() if w.size else 0
            if not worst <= 2e-4 * self.np.abs(w).max() + 1e-6:
                return {"wrong": f"differs by {worst:.3g}"}
        hone, ort = turns([lambda: mine.run(*inputs), lambda: session.run(None, feed)], seconds, self.a.threads)
        return {"hone_ms": hone * 1e3, "ort_ms": ort * 1e3, "load_ms": load * 1e3, "ratio": hone / ort}

    def disturbed(self):
        share = (time.process_time() - self.cpu) / (time.perf_counter() - self.wall)
        return share / self.a.threads < .9 and self.a.threads == 1


def networks(b):
    """Rows of the data folder's networks."""
    rows, data = [], nets.data_folder()
    if not data:
        print("skip: no data folder (set HONE_DATA): networks are left out")
        return rows
    for where in sorted(glob.glob(os.path.join(data, "*s", "*", "model.onnx"))):
        name = os.path.basename(os.path.dirname(where))
        if os.path.basename(os.path.dirname(os.path.dirname(where))) not in ("models", "nets") or (b.a.networks and name not in b.a.networks):
            continue
        with tempfile.TemporaryDirectory() as folder:
            model = nets.filled(os.path.dirname(where), folder)
            inputs = nets.tensors(os.path.join(os.path.dirname(where), "test_data_set_0"), "input")
            try:
                row = b.compare(b.session(model), model, inputs, b.a.seconds)
            except Exception as e:  # what one of the two cannot load is a row, too
                row = {"wrong": str(e).split("\n")[0][:120]}
        rows.append(dict(row, name=name))
        print(f"{name:32} " + (row.get("wrong") or "hone {hone_ms:9.3f} ms  ONNX Runtime {ort_ms:9.3f}  ratio {ratio:5.2f}  "
                               "loaded in {load_ms:.0f} ms".format(**row)), flush=True)
    return rows


def operators(b):
    import random_ops
    grammar, rows = random_ops.Grammar(b.a.seed), []
    while len(rows) < b.a.operators:
        model, shape, label = grammar.next()
        text = model.SerializeToString()
        x = b.np.random.RandomState(len(rows)).randn(*shape).astype("f4")
        try:
            session = b.session(text)
            session.run(None, {"x": x})
        except Exception:  # not legal, or not implemented there
            continue
        try:
            rows.append(dict(b.compare(session, text, [x], b.a.seconds / 10), name=label))
        except b.hone.Error as e:
            rows.append({"wrong": str(e), "name": label})
    over = [r for r in rows if "ratio" in r and r["ratio"] > b.a.limit and r["hone_ms"] - r["ort_ms"] > .02]
    for r in sorted(over, key=lambda r: -r["ratio"]):
        print("{ratio:8.2f}  {hone_ms:9.4f} ms  {ort_ms:9.4f}  {name}".format(**r))
    return rows, over


def summary(kind, rows):
    timed = [r["ratio"] for r in rows if "ratio" in r]
    for r in rows:
        if "wrong" in r:
            print(f"WRONG {r['name']}: {r['wrong']}")
    if timed:
        print(f"{len(timed)} {kind}: {measure.geomean(timed):.2f} times ONNX Runtime's time in the geometric mean, "
              f"{sum(t > 2 for t in timed)} above 2, worst {max(timed):.2f}")


def main(argv):
    a = options(argv)
    os.environ.setdefault("HONE_LIBRARY", os.path.abspath(os.path.join(a.build, "libhone.so")))
    b = Bench(a)
    nrows = networks(b)
    rows, over = operators(b) if a.operators else ([], [])
    summary("networks", nrows)
    summary("random operators", rows)
    print(f"{len(over)} operators above {a.limit:g} times" + (" (the machine was busy: no verdict)" if b.disturbed() else ""))
    os.makedirs(os.path.join(a.build, "untuned"), exist_ok=True)
    with open(os.path.join(a.build, "untuned", "untuned.json"), "w") as f:
        json.dump({"networks": nrows, "operators": rows, "threads": a.threads, "disturbed": b.disturbed()}, f, indent=1)


if __name__ == "__main__":
    main(sys.argv[1:])
