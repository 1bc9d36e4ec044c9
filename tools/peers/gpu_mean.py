# SPDX-License-Identifier: Apache-2.0
"""What a result of tools/bench/gpu.sh says of hone beside others: python3 gpu_mean.py FILE prints a JSON object:
  {"fp32": {"layers": convolutions and products that both hone and a library have timed, "geomean": the geometric mean of
            the library's time over hone's (above 1: hone is faster), "networks": {NAME: {"layers", "geomean",
            "of_compiled": hone's time over torch.compile's}}},
   "fp16": the same of level half, "minute": {"of_best": time after 600 s of tuning over that after 60 s}}
A layer's library is the best one of those present; hone's time is that of the kernel that begins with the layer's node,
and so has the operators that hone fuses with it."""
import json
import math
import re
import sys


def digits(v):
    return float("%.4g" % v)


def mean(ratios):
    return digits(math.exp(sum(map(math.log, ratios)) / len(ratios))) if ratios else None


def outputs(report, part, pattern):
    """(command, its JSON) of the part's runs whose command has the pattern."""
    for run in report.get("parts", {}).get(part, {}).get("runs", []):
        if isinstance(run["out"], dict) and re.search(pattern, run["command"]):
            yield run["command"], run["out"]


def network(command):
    return re.search(r"(\w+)\.onnx", command).group(1)


def library_us(libraries, mode):
    """{(network, node): microseconds of the best library}"""
    out = {}
    for row in libraries.get("layers", {}).values():
        best = row[mode].get("best")
        for net, nodes in row["nodes"].items():
            for node in nodes if best else []:
                out[net, node] = row[mode][best]["ms"] * 1e3
    return out


def beside(report, mode):
    libraries = next((o for _, o in outputs(report, "peers", "gpu_libs")), {})
    torch = next((o for _, o in outputs(report, "peers", "bench_gpu")), {}).get("networks", {})
    theirs, ratios, out = library_us(libraries, mode), [], {"networks": {}}
    for command, bench in outputs(report, "networks", r"hone bench "):
        if ("--level half" in command) != (mode == "fp16"):
            continue
        net = network(command)
        own = [theirs[net, k["name"]] / k["us"] for k in bench["kernels"] if k["us"] and (net, k["name"]) in theirs]
        row = out["networks"][net] = {"layers": len(own), "geomean": mean(own)}
        compiled = torch.get(net, {})
        compiled = compiled.get(mode, {}).get("compiled_ms") if isinstance(compiled, dict) else None
        if isinstance(compiled, (int, float)) and compiled > 0:
            row["of_compiled"] = digits(bench["median_ms"] / compiled)
        ratios += own
    return {"layers": len(ratios), "geomean": mean(ratios), **out}


def main(path):
    with open(path, encoding="utf-8") as f:
        report = json.load(f)
    out = {mode: beside(report, mode) for mode in ("fp32", "fp16")}
    times = [bench["median_ms"] for _, bench in outputs(report, "minute", r"hone bench ")]
    if len(times) == 2 and times[0] > 0:
        out["minute"] = {"of_best": digits(times[1] / times[0])}
    print(json.dumps(out))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
