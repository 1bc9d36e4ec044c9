# SPDX-License-Identifier: Apache-2.0
"""gpu_libs.py on the libraries and the driver of the tests: LD_LIBRARY_PATH=build/tests/fake python3 test_gpu_libs.py."""
import json
import os
import subprocess
import sys

import gpu_libs
import gpu_mean
from gpu_libs import Conv, Product

good = bad = 0


def check(what, holds):
    global good, bad
    good, bad = good + bool(holds), bad + (not holds)
    if not holds:
        print("FAILED %s" % what)


def conv(x, w, **a):
    return Conv(x, w, {k: v for k, v in a.items()})


def pads(*v):
    return {"pads": list(v)}


LAYERS = [conv([1, 3, 9, 7], [4, 3, 3, 2], strides=[2, 1], dilations=[1, 2], pads=[1, 2, 1, 2]),
          conv([2, 6, 5, 8], [9, 2, 3, 3], group=3, **pads(0, 1, 0, 1)),
          conv([1, 8, 6, 5], [8, 1, 3, 3], group=8, strides=[1, 2], **pads(1, 1, 1, 1)),
          conv([1, 5, 4, 7], [6, 5, 1, 1]), conv([2, 5, 4, 7], [6, 5, 1, 1]),
          Product(1, 3, 5, 7), Product(1, 4, 6, 10, trans=True), Product(3, 4, 5, 9), Product(2, 3, 6, 5, trans=True)]


def timed(row, name):
    return isinstance(row[name], dict)


def measure(lies="", cuda="", layers=None):
    """The report of a process with these lies on some of LAYERS."""
    code = ("import json, sys, gpu_libs as g, test_gpu_libs as t\n"
            "r = {'libraries': {}, 'wins': {mode: {} for mode in g.MODES}, 'wrong': []}\n"
            "b = g.Bench(g.Driver(0), r)\n"
            "r['rows'] = [b.layer(t.LAYERS[i]) for i in json.loads(sys.argv[1])]\n"
            "print(json.dumps(r))")
    which = json.dumps(layers if layers is not None else list(range(len(LAYERS))))
    p = subprocess.run([sys.executable, "-B", "-c", code, which], stdout=subprocess.PIPE, check=True, cwd=os.path.dirname(
        os.path.abspath(__file__)), env={**os.environ, "FAKE_LIBRARIES": lies, "FAKE_CUDA": cuda})
    return json.loads(p.stdout)


def check_means():
    """Geometric means of a result that was written by hand: of nodes a, b and c, c is in no library."""
    def bench(level, *us):
        kernels = [{"name": name, "us": t} for name, t in zip("abc", us)]
        return {"command": "build/hone bench TMP/n.onnx --device cuda:0%s" % level, "out": {"median_ms": 3, "kernels": kernels}}

    def layer(node, fp32, fp16):
        return {"nodes": {"n": [node]}, "fp32": {"cudnn": {"ms": fp32}, "cublas": "no", "best": "cudnn"},
                "fp16": {"cudnn": {"ms": fp16}, "best": "cudnn"} if fp16 else {"best": None}}
    libraries = {"layers": {"x": layer("a", .004, .001), "y": layer("b", .001, None)}}
    torch = {"networks": {"n": {"fp32": {"compiled_ms": 4}, "fp16": {"compiled_ms": "it failed"}}, "other": "it failed"}}
    runs = [{"command": "python3 tools/peers/gpu_libs.py", "out": libraries},
            {"command": "python3 tools/peers/bench_gpu.py", "out": torch}]
    parts = {"networks": {"runs": [bench("", 1, 1, 1), bench(" --level half", 2, 2, 2), {"command": "hone bench", "out": "no"}]},
             "peers": {"runs": runs}, "minute": {"runs": [bench("", 1), bench("", 1)]}}
    fp32, fp16 = (gpu_mean.beside({"parts": parts}, mode) for mode in ("fp32", "fp16"))
    check("the mean of 4 and 1: %s" % fp32, fp32 == {
        "layers": 2, "geomean": 2.0, "networks": {"n": {"layers": 2, "geomean": 2.0, "of_compiled": .75}}})
    check("what no library computes is left out: %s" % fp16, fp16 == {
        "layers": 1, "geomean": .5, "networks": {"n": {"layers": 1, "geomean": .5}}})
    check("no result has no mean", gpu_mean.beside({}, "fp32") == {"layers": 0, "geomean": None, "networks": {}})


def main():
    check_means()
    check("the sizes of results", [c.shape for c in LAYERS[:3]] ==
          [[1, 4, 5, 9], [2, 9, 3, 8], [1, 8, 6, 3]])
    r = measure()
    check("versions", r["libraries"] == {"cudnn": "91900", "cublas": "120800", "cublaslt": "120800"})
    check("all answers are right: %s" % r["wrong"], not r["wrong"])
    for layer, row in zip(LAYERS, r["rows"]):
        for mode in gpu_libs.MODES:
            check("%s: cudnn computes convolutions" % layer.name, timed(row[mode], "cudnn") == isinstance(layer, Conv))
            for name in ("cublas", "cublaslt"):
                check("%s: %s computes products: %s" % (layer.name, name, row[mode][name]),
                      timed(row[mode], name) == (layer.product() is not None))
            check("%s: one is the best" % layer.name, row[mode]["best"] in gpu_libs.LIBRARIES)
    for name in gpu_libs.LIBRARIES:
        i = 3 if name == "cudnn" else 7
        row = measure("part-" + name, layers=[i])
        check("%s: unwritten elements are found" % name, row["wrong"] and not timed(row["rows"][0]["fp32"], name) and
              all("not written" in w for w in row["wrong"]))
        row = measure("wrong-" + name, layers=[i])
        check("%s: a wrong answer is found" % name, row["wrong"] and all(w.startswith(name + " ") for w in row["wrong"]))
        check("%s: another algorithm is right" % name, timed(row["rows"][0]["fp32"], name))
        row = measure("refuse-" + name, layers=[i])
        check("%s: a refusal is said" % name, "status" in row["rows"][0]["fp32"][name])
        row = measure("fast-" + name, "cuStreamBeginCapture_v2=900", layers=[3])
        check("%s: the fastest wins: %s" % (name, row["wins"]), row["wins"] == {mode: {name: 1} for mode in gpu_libs.MODES})
    p = subprocess.run([sys.executable, "-B", gpu_libs.__file__, *sys.argv[1:]], stdout=subprocess.PIPE, check=True,
                       env={**os.environ, "FAKE_CUDA": "", "GPU_LIBS_S": "300"})
    r = json.loads(p.stdout.splitlines()[-1])
    check("a model's layers are timed", len(sys.argv) < 2 or (len(r["layers"]) == 9 and not r["left"] and not r["wrong"]))
    p = subprocess.run([sys.executable, "-B", gpu_libs.__file__, *sys.argv[1:]], stdout=subprocess.PIPE, check=True,
                       env={**os.environ, "FAKE_CUDA": "cuInit=100"})
    check("no device is said", json.loads(p.stdout) == {"skipped": "cuInit: status 100"})
    print("%d passed, %d failed, 0 skipped" % (good, bad))
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
