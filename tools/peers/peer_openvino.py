# SPDX-License-Identifier: Apache-2.0
"""OpenVINO: latency hint, one stream, fp32, denormals flushed, inputs and outputs in place."""
import sys

import openvino as ov

import peer

VERSION = ov.__version__.split("-")[0]
SETTINGS = ["infer", "start_async, wait"]


def load(job, setting):
    core = ov.Core()
    config = {"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1", "INFERENCE_NUM_THREADS": str(job["threads"]),
              "INFERENCE_PRECISION_HINT": "f32", "ENABLE_HYPER_THREADING": "NO",
              "CPU_DENORMALS_OPTIMIZATION": "YES"}
    model = core.compile_model(core.read_model(job["model"]), "CPU", config)
    req = model.create_infer_request()
    shared = [(name, ov.Tensor(v, shared_memory=True), v) for name, v in peer.job_inputs(job)]
    for name, t, _ in shared:
        req.set_tensor(name, t)

    def infer():
        req.infer(share_outputs=True)

    def wait():
        req.start_async()
        req.wait()

    # The tensors live as long as the request.
    return {"infer": infer, "start_async, wait": wait}[setting], \
        lambda keep=shared: [req.get_output_tensor(i).data for i in range(len(model.outputs))]


if __name__ == "__main__":
    peer.serve(sys.modules[__name__])
