# SPDX-License-Identifier: Apache-2.0
"""hone through its Python package, as the peers are called through theirs: for models so small that the call counts.
The job also says cache (folder; None: fallback kernels) and level (as hone.load takes it)."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

import hone  # noqa: E402

import peer  # noqa: E402

VERSION = hone.version()
SETTINGS = ["default"]


def load(job, setting):
    model = hone.load(job["model"], threads=job["threads"], caches=[job["cache"]] if job["cache"] else [],
                      level=job["level"])
    given = dict(peer.job_inputs(job))
    run = model.bind(*[given[t.name] for t in model.inputs])
    return run, run


if __name__ == "__main__":
    peer.serve(sys.modules[__name__])
