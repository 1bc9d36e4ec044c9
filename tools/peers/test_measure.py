# SPDX-License-Identifier: Apache-2.0
"""Statistics, line protocol, report and options of make bench-peers, without any of the libraries. Run by make test."""
import argparse
import os
import re
import sys
import tempfile
import time
import xml.dom.minidom

import bench_peers
import bench_start
import bench_tvm
import measure
import report

CHILD = """
import sys
print("a banner", flush=True)
print('ready {"version": "1"}', flush=True)
n = 0
for line in sys.stdin:
    n += 1
    if line == "quit\\n" or n > int(sys.argv[1]):
        sys.exit(3)
    print(900, *[int(sys.argv[2])] * 3, flush=True)
"""


def child(name, turns, ns):
    return measure.Runner(name, [sys.executable, "-c", CHILD, str(turns), str(ns)], os.sched_getaffinity(0))


def test_statistics():
    v = [5, 1, 4, 2, 3, 10, 6, 9, 8, 7]
    assert measure.median(v) == 5.5 and measure.quantile(v, 0.9) == 9 and measure.quantile(v, 0) == 1
    assert measure.interval([3, 1, 2]) == (2, 1, 3)
    mid, low, high = measure.interval(range(101))
    assert mid == 50 and 35 < low < 50 < high < 65
    assert abs(measure.geomean([1, 4]) - 2) < 1e-12 and measure.geomean([]) is None


def test_ratios_compare_rounds():
    # A neighbour doubles everything in the second round: the ratio does not move.
    base, other = [[10, 10], [20, 20], []], [[15], [30], [5]]
    assert measure.ratios(base, other) == [1.5, 1.5]
    s = measure.summary({"hone": base, "x": other, "gone": [[], [], []]}, "hone")
    assert s["x"]["ratio"] == 1.5 and s["x"]["turns"] == 3 and "gone" not in s
    assert s["hone"]["ratio"] == 1 and s["hone"]["p50_ms"] == 15e-6


def test_a_line_that_is_no_turn():
    assert measure.parse_turn("3 4") == [3, 4]
    for bad in ("", "a b", "3 -1", "error no memory"):
        try:
            measure.parse_turn(bad)
        except measure.Dead:
            continue
        raise AssertionError(bad)


def test_turns_survive_a_crash():
    good, bad = child("good", 1000, 200), child("bad", 1, 400)
    assert good.wait_ready(20) == {"version": "1"} and bad.wait_ready(20)
    turns, dead = measure.interleave([good, bad], 0, 1, 0)
    good.close()
    bad.close()
    assert len(turns["good"]) == 3 and turns["good"][0] == [200] * 3  # the first of a turn is not counted
    assert turns["bad"] == [[400] * 3, [], []] and "status 3" in dead["bad"]


def machine(root, ran_ms, waited_ms, busy_ticks):
    for path, text in (("proc/7/task/7/schedstat", f"{ran_ms}000000 {waited_ms}000000 1\n"), ("proc/stat", f"cpu  {busy_ticks} 0 0 900 0 0 0 0 0 0\n")):
        os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
        with open(os.path.join(root, path), "w") as f:
            f.write(text)


def test_busy_machines():
    for ran, waited, ticks, words in ((200, 0, 20, None), (200, 40, 20, "the measured processes got 83 %"), (100, 0, 90, "others used ")):
        with tempfile.TemporaryDirectory() as root:
            machine(root, 0, 0, 0)
            w = measure.Watch([7], root)
            time.sleep(0.25)
            machine(root, ran, waited, ticks)
            busy = w.end()["busy"]
            assert (busy is None) if words is None else busy.startswith(words), busy
    assert measure.Watch([1], "/nowhere").end() == {"share_pct": None, "others_pct": None, "busy": None}


def test_start_without_an_image():
    a = argparse.Namespace(model="net.onnx", cache="/nowhere")
    assert bench_start.image_file(a) is None
    ours, theirs = [(1, 0)] * 9, [(1.5, 0.5)] * 9
    assert "2.00 times as soon" in bench_start.verdict(ours, theirs, None) and bench_start.verdict(ours, [], None) is None
    assert "no significant difference" in bench_start.verdict(ours[:4], theirs[:4], None)
    assert bench_start.verdict(ours, theirs, "others").startswith("no verdict") and bench_start.verdict(ours, [], "x")


def test_no_verdict_of_a_busy_machine():
    row = result(hone=(1, 0), openvino=(1.5, 1e-6))
    out = {"results": [dict(row, machine={"busy": "others used 90 % of a processor"})], "cpu": "", "system": "", "date": "",
           "machine": {}, "versions": {}, "budget_s": 5, "cpus": [0], "left_out": {}}
    text = report.summary_text(out)
    assert "times as fast" not in text and "no verdict: a<b" in text and "others used 90 %" in report.network_text(out["results"][0])
    out["results"][0]["machine"]["busy"] = None
    assert "times as fast" in report.summary_text(out) and "no verdict" not in report.summary_text(out)


def result(**runs):
    rows = {n.replace("_", " "): {"p50_ms": r, "p90_ms": r, "min_ms": r, "ratio": r, "ratio_low": r, "ratio_high": r,
                                  "runs": 9, "max_error": e} for n, (r, e) in runs.items()}
    return {"network": "a<b", "threads": 1, "failed": {"ncnn": "killed by signal 11"}, "tuning_s": {"hone": 5}, "runs": rows}


def test_report():
    row = result(hone=(1, 0), hone_default=(1.2, 0), openvino=(1.5, 1e-6), mnn=(0.5, 0.4), tvm=(2, 1e-6), onednn_kernels=(0.1, None))
    assert report.best_peer(row) == ("openvino", 1.5)  # mnn's answer is wrong, onednn has none
    assert report.best_peer(result(hone=(1, 0.5), openvino=(1.5, 1e-6))) is None  # so is hone's here
    text = report.network_text(row)
    assert text.count("WRONG") == 1 and "killed by signal 11" in text
    slower = result(hone=(1, 0), hone_exact=(1.2, 0), openvino=(1.5, 1e-6))
    assert report.best_peer(slower, "hone exact") == ("openvino", 1.25) and report.best_peer(row, "hone exact") is None
    behind = result(hone=(1, 0), openvino=(0.9, 1e-6))
    assert report.totals([row, behind], 1)[1:] == (2, [("a<b", "openvino", 0.9)])
    out = {"results": [row], "cpu": "x & y", "system": "s", "date": "d", "machine": {}, "versions": {"hone": "1"},
           "budget_s": 5, "cpus": [0], "left_out": {"tvm": "no wheel"}}
    assert "left out: tvm: no wheel" in report.summary_text(out)
    xml.dom.minidom.parseString(report.svg(out))


def test_headline_and_page():
    row = dict(result(hone=(1, 0), openvino=(1.5, 1e-6)), called="Python")
    row["runs"]["openvino"].update(ratio_low=1.4, ratio_high=1.6)
    assert "is 1.50 times as fast" in report.headline([row], 1, "hone") and "95 % interval 1.40 to 1.60" in report.headline([row], 1, "hone")
    row["runs"]["openvino"].update(ratio_low=0.9)
    assert "no significant difference" in report.headline([row], 1, "hone")
    out = {"results": [row], "cpu": "x & y", "system": "s", "date": "2026-01-02", "machine": {}, "versions": {"hone": "1"},
           "budget_s": 5, "cpus": [0], "left_out": {}}
    text = report.page(out)
    assert "x & y" in text and "2026-01-02" in text and "called from Python" in text and "| openvino | 1.500 | 1.50 | 0.90 to 1.60 | 1.0e-06 |" in text
    row["machine"] = {"busy": "others"}
    assert "No verdict: the machine was busy (others)" in report.page(out)


def test_small_models_are_called_alike():
    assert bench_peers.small([5e5] + [9e4] * 9) and not bench_peers.small([9e4] + [2e5] * 9)
    b = bench_peers.Bench(bench_peers.options([]))

    class Fake:
        def __init__(self, name):
            self.name, self.closed = name, False

        def close(self):
            self.closed = True

    b.start_binding = lambda job, kind, threads, cpus: Fake(bench_peers.runner_name(kind))
    b.ready = lambda r, timeout_s, row: r
    row, hones = {"failed": {}}, [(k, Fake(bench_peers.runner_name(k))) for k in ("best", "default", "fallback")]
    names = [r.name for r in b.by_binding({}, hones, 1, [0], row)]
    assert names == ["hone", "hone in C", "hone default in C", "hone fallback"] and row["called"] == "Python" and hones[2][1].closed


def test_batches():
    assert measure.batches(["a", "b", "c"], 2) == [["a", "b"], ["c"]] and measure.batches([], 1) == []


def test_int8_has_a_limit_of_its_own():
    row = result(hone=(1, 0.1), onnxruntime=(2, 0.12))
    assert report.best_peer(row) is None
    assert report.best_peer({**row, "wrong": report.WRONG_INT8}) == ("onnxruntime", 2)


def test_far_kernels():
    k = [{"name": "a", "us": 100, "roofline_pct": 90}, {"name": "b", "us": 50, "roofline_pct": 20},
         {"name": "c", "us": 15, "roofline_pct": None}, {"name": "d", "us": 9, "roofline_pct": 130}]
    assert [(r["name"], round(r["above_us"])) for r in report.far(k, 3)] == [("b", 40), ("c", 15), ("a", 10)]


def test_roofline():
    k = [{"name": "a", "label": "conv 3x3 64->64 56x56", "us": 100, "roofline_pct": 90}, {"name": "b", "label": "matmul 1x9 k9", "us": 50, "roofline_pct": 250},
         {"name": "c", "label": "conv 3x3 64->64 56x56 F(4,3)", "us": 15, "roofline_pct": 50},
         {"name": "d", "label": "copy 1x9", "us": 9, "roofline_pct": 10}, {"name": "e", "label": "dwconv 3x3 9->9 7x7", "us": 9, "roofline_pct": 40}]
    shares, below = report.roofline(k)
    assert shares == [90, 100, 40] and [r["name"] for r in below] == ["e"]
    row = {**result(hone=(1, 0), hone_fallback=(6, 0), onnxruntime=(2, 1e-6)), "roofline": {"shares": [50, 100], "below": below}}
    out = {"results": [row], "cpu": "", "system": "", "date": "", "machine": {}, "versions": {}, "budget_s": 5, "cpus": [0], "left_out": {}}
    text = report.summary_text(out)
    assert "hone takes 0.50 of ONNX" in text and "hone fallback takes 3.00" in text and "71 %" in text and "1 below 75 %" in text


def test_options():
    a = bench_peers.options(["--short", "--threads", "1", "resnet18"])
    assert a.networks == ["resnet18"] and a.budget == 5 and "tvm" not in a.peers and a.threads == [1]
    assert bench_peers.options([]).budget == 60
    b = bench_peers.Bench(bench_peers.options([]))
    b.cpus = [0, 1, 2]
    assert "exact" in b.kinds(1) and b.kinds(2) == ["best", "default", "fallback"]  # no processors to tune them beside
    b.a.kernels = ["exact"]
    assert b.kinds(2) == ["exact"]
    null, err = open(os.devnull, "w"), sys.stderr
    sys.stderr = null
    try:
        bench_peers.options(["nonet"])
        raise AssertionError("an unknown network is accepted")
    except SystemExit as e:
        assert e.code == 2
    finally:
        sys.stderr = err
        null.close()


def test_tvm_beside():
    a = bench_tvm.options(["--budgets", "6,20", "2"])
    assert a.layers == [list(bench_tvm.LAYERS)[1]] and a.budgets == [6, 20] and len(bench_tvm.options([]).layers) == len(bench_tvm.LAYERS)
    null, err = open(os.devnull, "w"), sys.stderr
    for bad in (["0"], ["99"], ["x"], ["--budgets", "0"], ["--budgets", "a"], ["--times", "-1"]):
        sys.stderr = null
        try:
            bench_tvm.options(bad)
        except SystemExit as e:
            assert e.code == 2
        else:
            raise AssertionError(bad)
        finally:
            sys.stderr = err
    null.close()
    run = {"p50_ms": 1.5, "ratio": 2, "ratio_low": 1.9, "ratio_high": 2.1}
    row = {"layer": "l", "hone_s": 6, "tvm_s": 61.2, "hone_trials": 70, "tvm_trials": 8, "max_error": 1e-6, "runs": {"hone": run, "tvm": run}}
    assert "2.00" in bench_tvm.line(row) and " 8 " in bench_tvm.line(row) and "1e-06" in bench_tvm.line(row)
    assert len(bench_tvm.line(row)) == len(bench_tvm.HEAD)
    assert "failed: no" in bench_tvm.line({"layer": "l", "failed": "no"})
    assert bench_tvm.tried("/nowhere") == 0


def test_kinds_are_levels_and_kernels():
    """Each kind that is tuned is a level of hone.load, which bench_peers.level asks for; the others need none."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python", "hone", "_model.py")
    line = next(text for text in open(path) if text.startswith("_LEVELS = "))
    levels = set(re.findall(r'"([a-z0-9-]+)":', line)) - {"fp32", "int8"}
    assert set(bench_peers.TUNED) == levels | {"best"}, levels
    for kind in bench_peers.KINDS:
        assert bench_peers.level(kind) == (["--level", kind] if kind in levels else [])
        assert bench_peers.options(["--kernels", kind, "--short"]).kernels == [kind]
        assert kind == "best" or kind in ("default", "fallback") or "hone " + kind in report.COLORS


def main():
    bad = 0
    tests = [f for n, f in sorted(globals().items()) if n.startswith("test_")]
    for f in tests:
        try:
            f()
        except Exception as e:  # noqa: BLE001
            bad += 1
            print(f"FAIL {f.__name__}: {type(e).__name__} {e}")
    print("skip: the libraries themselves: make bench-peers")
    print(f"{len(tests) - bad} passed, {bad} failed, 1 skipped")
    sys.exit(bad != 0)


if __name__ == "__main__":
    main()
