# SPDX-License-Identifier: Apache-2.0
"""MNN, converted by its own converter: CPU, fp32; precision and memory are tried, as they choose algorithms."""
import os
import subprocess
import sys

import MNN
import numpy as np

import peer

VERSION = MNN.version() if hasattr(MNN, "version") else "unknown"
SETTINGS = ["high normal", "high high", "normal high"]  # precision (normal is fp32 too on x86), memory


def convert(job):
    path = os.path.join(job["scratch"], "net.mnn")
    if not os.path.exists(path):
        tool = os.path.join(os.path.dirname(sys.executable), "mnnconvert")
        subprocess.run([tool, "-f", "ONNX", "--modelFile", job["model"], "--MNNModel", path, "--bizCode", "x"],
                       stdout=sys.stderr, timeout=120, check=False)
        if not os.path.exists(path):
            raise RuntimeError("mnnconvert cannot convert it")
    return path


def load(job, setting):
    path = convert(job)
    net = MNN.Interpreter(path)
    s = net.createSession({"backend": "CPU", "numThread": job["threads"], "power": "high",
                           "precision": setting.split()[0], "memory": setting.split()[1]})
    ins = [(net.getSessionInput(s, name), *tensor(v)) for name, v in peer.job_inputs(job)]

    def run():  # the session reuses the memory of its inputs
        for t, v, _ in ins:
            t.copyFrom(v)
        net.runSession(s)

    return run, lambda: [host(net.getSessionOutput(s, n)) for n in job["outputs"]]


def tensor(v):
    """MNN's tensor on the memory of an array, which must outlive it."""
    kind = MNN.Halide_Type_Float
    if v.dtype.kind == "i":
        v, kind = v.astype(np.int32), MNN.Halide_Type_Int
    return MNN.Tensor(v.shape, kind, v, MNN.Tensor_DimensionType_Caffe), v


def host(t):
    shape = t.getShape()
    v = np.zeros(shape, np.float32)
    copy = MNN.Tensor(shape, MNN.Halide_Type_Float, v, MNN.Tensor_DimensionType_Caffe)
    t.copyToHostTensor(copy)
    return np.array(copy.getNumpyData(), copy=True).reshape(shape)


if __name__ == "__main__":
    peer.serve(sys.modules[__name__])
