# SPDX-License-Identifier: Apache-2.0
"""ncnn, converted by pnnx: fp32 (no fp16 or bf16 storage), with and without Winograd. It flushes denormals by itself."""
import os
import subprocess
import sys

import ncnn
import numpy as np

import peer

VERSION = ncnn.__version__
SETTINGS = ["winograd", "no winograd", "no sgemm", "no packing"]


def convert(job):
    stem = os.path.join(job["scratch"], "net")
    if not os.path.exists(stem + ".ncnn.param"):
        import importlib.util
        pnnx = os.path.join(os.path.dirname(importlib.util.find_spec("pnnx").origin), "pnnx")
        onnx = stem + ".onnx"
        if not os.path.exists(onnx):
            os.symlink(job["model"], onnx)
        p = subprocess.run([pnnx, onnx, "fp16=0"], stdout=sys.stderr, timeout=120, check=False)
        if p.returncode or not os.path.exists(stem + ".ncnn.param"):
            raise RuntimeError(f"pnnx cannot convert it (status {p.returncode})")
    with open(stem + ".ncnn.param") as f:
        left = sorted({line.split()[0] for line in f if "." in line.split()[0]})
    if left:
        raise RuntimeError(f"pnnx leaves {', '.join(left)}, which ncnn does not have")
    return stem


def load(job, setting):
    stem = convert(job)
    net = ncnn.Net()
    o = net.opt
    o.num_threads = job["threads"]
    o.use_vulkan_compute = False
    o.use_fp16_packed = o.use_fp16_storage = o.use_fp16_arithmetic = o.use_bf16_storage = \
        o.use_bf16_packed = False
    o.use_winograd_convolution = setting != "no winograd"
    o.use_sgemm_convolution = setting != "no sgemm"
    o.use_packing_layout = setting != "no packing"
    o.lightmode = True
    if net.load_param(stem + ".ncnn.param") or net.load_model(stem + ".ncnn.bin"):
        raise RuntimeError("ncnn cannot load what pnnx wrote")
    ins = [(f"in{i}", mat(v)) for i, (_, v) in enumerate(peer.job_inputs(job))]
    outs = [f"out{i}" for i in range(len(job["outputs"]))]
    last = {}

    def run():
        ex = net.create_extractor()
        for name, m in ins:
            ex.input(name, m)
        for name in outs:
            rc, last[name] = ex.extract(name)
            if rc:
                raise RuntimeError(f"ncnn: extracting {name} fails with {rc}")

    return run, lambda: [np.array(last[n]) for n in outs]


def mat(v):
    """ncnn has no batch axis."""
    v = v.astype(np.float32)
    if v.ndim > 1 and v.shape[0] == 1:
        v = v[0]
    return ncnn.Mat(v).clone()


if __name__ == "__main__":
    peer.serve(sys.modules[__name__])
