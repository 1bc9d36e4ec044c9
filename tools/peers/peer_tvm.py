# SPDX-License-Identifier: Apache-2.0
"""TVM: MetaSchedule on every kernel within a stated budget of seconds, weights packed as the schedules want them. What
the budget does not reach runs untuned. The records are kept in the scratch folder, for this number of threads."""
import os
import sys
import time

os.environ["TVM_BIND_THREADS"] = "0"  # its pool would undo the pinning

import onnx
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.relax_integration import extract_tasks, tune_relax
from tvm.ir.utils import derived_object

import peer

VERSION = tvm.__version__
SETTINGS = ["tuned"]
TUNED_S = 0
BUILD_S = 120  # a batch's time to compile; its processes take half a minute to start
TRIALS_PER_S = 1.0  # about what MetaSchedule builds and times; to divide the budget among the kernels


class OutOfTime(Exception):
    pass


@derived_object
class Stop(ms.measure_callback.PyMeasureCallback):
    """Ends the tuning when its seconds are over; what was measured is in the database by then."""

    end = 0.0
    over = False

    def apply(self, task_scheduler, task_id, measure_candidates, builder_results, runner_results):
        Stop.over = time.monotonic() > Stop.end
        if Stop.over:
            raise OutOfTime


def target(job):
    import subprocess
    p = subprocess.run(["cc", "-march=native", "-Q", "--help=target"], capture_output=True, text=True, check=False)
    cpu = [line.split()[1] for line in p.stdout.splitlines() if line.split()[:1] == ["-march="]]
    return tvm.target.Target({"kind": "llvm", "mcpu": cpu[0] if cpu else "x86-64-v3", "num-cores": job["threads"]})


def tune(mod, t, work, seconds, threads, at_once):
    global TUNED_S
    start = time.monotonic()
    Stop.end = start + seconds
    tasks = extract_tasks(mod, t, {})
    per_task = at_once or max(2, min(64, int(seconds * TRIALS_PER_S / (2 * max(1, len(tasks))))))
    callbacks = [ms.measure_callback.AddToDatabase(), ms.measure_callback.RemoveBuildArtifact(),
                 ms.measure_callback.UpdateCostModel(), Stop()]
    try:
        tune_relax(mod, {}, t, work, 1 << 20, num_trials_per_iter=per_task, measure_callbacks=callbacks, seed=1,
                   builder=ms.builder.LocalBuilder(max_workers=threads, timeout_sec=BUILD_S))
    except Exception:  # noqa: BLE001: it comes back through C++ as another class
        if not Stop.over:
            raise
    TUNED_S = time.monotonic() - start


def load(job, setting):
    work = os.path.join(job["scratch"], f"tvm-{job['threads']}")
    t = target(job)
    mod = from_onnx(onnx.load(job["model"]), keep_params_in_input=False)
    tr = relax.transform
    with t:
        mod = tvm.transform.Sequential([tr.DecomposeOpsForInference(), tr.CanonicalizeBindings(),
                                        relax.get_pipeline("zero"), tr.AttachAttrLayoutFreeBuffers()])(mod)
        if job["tune_s"] > 0:
            tune(mod, t, work, job["tune_s"], job["threads"], job.get("trials_at_once"))
        mod = tvm.transform.Sequential([tr.MetaScheduleApplyDatabase(work), tr.SplitLayoutRewritePreproc(),
                                        tr.LiftTransformParams(), tr.FoldConstant()])(mod)
    vm = relax.VirtualMachine(relax.build(mod, t), tvm.cpu())
    ins = [tvm.runtime.tensor(v) for _, v in peer.job_inputs(job)]
    main, last = vm["main"], []

    def run():
        last[:] = [main(*ins)]

    def outputs():
        v = last[0]
        return [v.numpy()] if hasattr(v, "numpy") else [x.numpy() for x in v]

    return run, outputs


if __name__ == "__main__":
    peer.serve(sys.modules[__name__])
