# SPDX-License-Identifier: Apache-2.0
"""make bench-tvm: layers tuned by hone in a few seconds and by TVM's MetaSchedule in ten times as many, on one core.

Each layer is a model of its own. Both search on the same processor, one after the other; TVM's seconds begin when it has
read the model, hone's with its process. Then both run in turns. Writes BUILD/peers/tvm.json and prints a table."""
import argparse
import json
import os
import shutil
import subprocess
import sys
import time

import measure
import nets

HERE = os.path.dirname(os.path.abspath(__file__))
TRIALS_AT_ONCE = 8  # TVM looks at its clock after so many
LAYERS = {  # c, height = width, k, r = s, stride, groups; all with ReLU behind
    "resnet18 3x3 64@56": (64, 56, 64, 3, 1, 1),
    "resnet18 3x3 256@14": (256, 14, 256, 3, 1, 1),
    "mobilenet_v2 1x1 144>24@56": (144, 56, 24, 1, 1, 1),
    "mobilenet_v2 depthwise 144@56": (144, 56, 144, 3, 1, 144),
}


def options(argv):
    p = argparse.ArgumentParser(prog="make bench-tvm ARGS=", description=__doc__.split("\n")[0])
    p.add_argument("layers", nargs="*", help="numbers of layers, from 1 (default: all): " +
                   ", ".join(f"{i} {n}" for i, n in enumerate(LAYERS, 1)))
    p.add_argument("--budgets", default="6,20", help="hone's seconds a layer (default 6,20)")
    p.add_argument("--times", type=float, default=10, help="TVM's seconds over hone's (default 10)")
    p.add_argument("--seconds", type=float, default=3, help="of measuring for each (default 3)")
    p.add_argument("--cpu", type=int, help="processor (default: the last)")
    p.add_argument("--build", default=os.environ.get("BUILD", "build"), help="build folder (default build)")
    a = p.parse_args(argv)
    try:
        a.budgets = [float(b) for b in a.budgets.split(",")]
        a.layers = [dict(enumerate(LAYERS, 1))[int(i)] for i in a.layers] or list(LAYERS)
    except (ValueError, KeyError) as e:
        p.error(f"not one of them: {e}")
    if min(a.budgets) <= 0 or a.times <= 0:
        p.error("seconds are above 0")
    return a


def job(name, root):
    """The layer as a model with seeded weights, and an input, in a folder of its own."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    c, size, k, r, stride, groups = LAYERS[name]
    folder = os.path.abspath(os.path.join(root, "tvm-" + name.replace(" ", "-").replace(">", "-")))
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    rng = np.random.default_rng(1)
    w = rng.normal(0, (2 / (c // groups * r * r)) ** 0.5, (k, c // groups, r, r)).astype(np.float32)
    b = rng.normal(0, 0.1, k).astype(np.float32)
    out = (size + stride - 1) // stride
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["t"], kernel_shape=[r, r], strides=[stride] * 2, pads=[r // 2] * 4,
                              group=groups), helper.make_node("Relu", ["t"], ["y"])]
    graph = helper.make_graph(nodes, "layer", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, c, size, size])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, k, out, out])],
                              [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")])
    j = {"name": name, "folder": folder, "model": os.path.join(folder, "model.onnx"), "outputs": ["y"], "threads": 1,
         "inputs": [["x", os.path.join(folder, "input_0.npy")]], "gflop": 2e-9 * k * out * out * (c // groups) * r * r}
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), j["model"])
    np.save(j["inputs"][0][1], rng.uniform(-1, 1, (1, c, size, size)).astype(np.float32))
    return j


def on(cpu):
    return lambda: os.sched_setaffinity(0, {cpu})


def start_hone(j, a, budget):
    """(runner, candidates tried, seconds)."""
    hone = os.path.abspath(os.path.join(a.build, "hone"))
    cache = os.path.join(j["folder"], f"cache-{budget:g}")
    p = subprocess.run([hone, "tune", j["model"], "--budget", f"{budget * 1e3:.0f}ms", "--threads", "1", "--cache", cache, "--json",
                        "-q"], capture_output=True, text=True, check=True, preexec_fn=on(a.cpu))
    said = json.loads(p.stdout)
    cmd = [os.path.join(a.build, "tools", "bench_net"), j["model"], "--threads", "1", "--cache", cache, "--output",
           os.path.join(j["folder"], "hone"), "--json"] + ["--input", "=".join(j["inputs"][0])]
    r = measure.Runner("hone", cmd, {a.cpu}, {"HONE_WORKER": hone + "-worker"}, os.path.join(j["folder"], "hone.log"))
    return r, said["trials"], said["elapsed_s"]


def start_tvm(j, a, budget):
    """The same of TVM: it has what it asks for, and the seconds say so."""
    scratch = os.path.join(j["folder"], f"tvm-{budget:g}")
    os.makedirs(scratch)
    path = os.path.join(scratch, "job.json")
    with open(path, "w") as f:
        json.dump({**j, "scratch": scratch, "out": scratch, "tune_s": budget, "trials_at_once": TRIALS_AT_ONCE}, f)
    env = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    r = measure.Runner("tvm", [sys.executable, os.path.join(HERE, "peer_tvm.py"), path], {a.cpu}, env, os.path.join(scratch, "log"))
    r.wait_ready(300 + 4 * budget)
    return r, tried(os.path.join(scratch, "tvm-1")), r.ready["tuning_s"]


def tried(work):
    """Candidates in MetaSchedule's database: a line each."""
    try:
        with open(os.path.join(work, "database_tuning_record.json")) as f:
            return sum(1 for _ in f)
    except OSError:
        return 0


def compare(j, a, budget):
    row = {"layer": j["name"], "gflop": j["gflop"], "hone_budget_s": budget, "tvm_budget_s": budget * a.times}
    runners = []
    try:
        for name, start, seconds in (("hone", start_hone, budget), ("tvm", start_tvm, budget * a.times)):
            r, row[name + "_trials"], row[name + "_s"] = start(j, a, seconds)
            runners.append(r)
            if name == "hone":
                r.wait_ready(120)
        files = {r.name: [o["file"] if isinstance(o, dict) else o for o in r.ready["outputs"]] for r in runners}
        row["max_error"] = nets.max_error(files["tvm"], files["hone"])
        turns, dead = measure.interleave(runners, a.seconds, 30, 0)
        if dead:
            raise measure.Dead("; ".join(f"{n}: {w}" for n, w in dead.items()))
        row["runs"] = measure.summary(turns, "hone")
    except (measure.Dead, subprocess.CalledProcessError) as e:
        row["failed"] = str(e)
    finally:
        for r in runners:
            r.close()
    return row


HEAD = f"{'layer':31}{'hone s':>8}{'tried':>7}{'ms':>9}{'TVM s':>8}{'tried':>7}{'ms':>9}{'TVM/hone':>10}{'95 % interval':>16}{'error':>9}"


def line(row):
    if "failed" in row:
        return f"{row['layer']:31} failed: {row['failed']}"
    h, t = row["runs"]["hone"], row["runs"]["tvm"]
    between = f"{t['ratio_low']:.2f}-{t['ratio_high']:.2f}"
    error = "-" if row["max_error"] is None else f"{row['max_error']:.0e}"
    return (f"{row['layer']:31}{row['hone_s']:8.1f}{row['hone_trials']:7}{h['p50_ms']:9.3f}{row['tvm_s']:8.1f}{row['tvm_trials']:7}"
            f"{t['p50_ms']:9.3f}{t['ratio']:10.2f}{between:>16}{error:>9}")


def main():
    a = options(sys.argv[1:])
    cpus = sorted(os.sched_getaffinity(0))
    a.cpu = cpus[-1] if a.cpu is None else a.cpu
    root = os.path.join(a.build, "peers")
    out = {"date": time.strftime("%Y-%m-%d %H:%M"), "cpu": a.cpu, "rows": []}
    print(HEAD, flush=True)
    for name in a.layers:
        j = job(name, root)
        for budget in a.budgets:
            out["rows"].append(compare(j, a, budget))
            print(line(out["rows"][-1]), flush=True)
    ratios = [r["runs"]["tvm"]["ratio"] for r in out["rows"] if "runs" in r]
    if ratios:
        print(f"TVM takes {measure.geomean(ratios):.2f} times as long as hone (geometric mean of {len(ratios)})")
    with open(os.path.join(root, "tvm.json"), "w") as f:
        json.dump(out, f, indent=1)
    print(f"wrote {root}/tvm.json", file=sys.stderr)


if __name__ == "__main__":
    main()
