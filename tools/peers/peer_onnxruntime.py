# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime: every graph optimisation, inputs and outputs bound, denormals flushed."""
import sys

import onnxruntime as ort

import peer

VERSION = ort.__version__
SETTINGS = ["default", "dynamic block"]


def load(job, setting):
    so = ort.SessionOptions()
    so.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    so.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    so.intra_op_num_threads = job["threads"]
    so.inter_op_num_threads = 1
    so.log_severity_level = 3
    so.add_session_config_entry("session.set_denormal_as_zero", "1")
    if setting == "dynamic block":
        so.add_session_config_entry("session.dynamic_block_base", "4")
    s = ort.InferenceSession(job["model"], so, providers=["CPUExecutionProvider"])
    bind = s.io_binding()
    for name, v in peer.job_inputs(job):
        bind.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(v))
    for o in s.get_outputs():
        if all(isinstance(d, int) for d in o.shape):
            bind.bind_ortvalue_output(o.name, ort.OrtValue.ortvalue_from_shape_and_type(o.shape, dtype(o.type)))
        else:
            bind.bind_output(o.name, "cpu")
    return lambda: s.run_with_iobinding(bind), bind.copy_outputs_to_cpu


def dtype(text):
    return {"tensor(float)": "float32", "tensor(int64)": "int64", "tensor(int32)": "int32",
            "tensor(bool)": "bool", "tensor(double)": "float64"}[text]


if __name__ == "__main__":
    peer.serve(sys.modules[__name__])
