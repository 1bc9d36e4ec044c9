# SPDX-License-Identifier: Apache-2.0
"""OpenCV DNN: CPU target, fp32, fusion and Winograd on; each engine that the version has."""
import sys

import cv2

import peer

VERSION = cv2.__version__
SETTINGS = [n for n in ("ENGINE_NEW", "ENGINE_CLASSIC", "ENGINE_ORT") if hasattr(cv2.dnn, n)] or ["only"]


def load(job, setting):
    cv2.setNumThreads(job["threads"])
    args = [getattr(cv2.dnn, setting)] if setting != "only" else []
    net = cv2.dnn.readNetFromONNX(job["model"], *args)
    net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
    net.setPreferableTarget(cv2.dnn.DNN_TARGET_CPU)
    ins = peer.job_inputs(job)
    names = job["outputs"]
    if setting != "ENGINE_NEW":
        names = [n for n in net.getUnconnectedOutLayersNames()]
    last = []

    def run():
        for name, v in ins:
            net.setInput(v, name) if len(ins) > 1 else net.setInput(v)
        last[:] = net.forward(names) if len(names) > 1 else [net.forward()]

    return run, lambda: last


if __name__ == "__main__":
    peer.serve(sys.modules[__name__])
