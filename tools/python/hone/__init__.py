# SPDX-License-Identifier: Apache-2.0
"""Runs neural networks with kernels tuned on this machine: libhone for Python.

    import hone
    model = hone.load("model.onnx")
    scores = model(image)                   # arrays in, arrays out, in the model's order
    out = model(camera=image)               # or by name
    again = model.bind(image)               # again() runs on the same arrays, without looking at them anew

Inputs are numpy arrays, or anything else on the CPU that has __dlpack__ (PyTorch, JAX, CuPy on the host) or the buffer
protocol; what has the model's dtype and lies row-major is not copied. Outputs are numpy arrays, which have __dlpack__
themselves; without numpy, memoryviews. `hone.load` takes what hone.h's structures take: see Handle and Model.
A call releases the interpreter's lock while the model runs.
"""
from ._library import Error, version
from ._model import Handle, KernelInfo, Model, ModelInfo, TensorInfo, load

__all__ = ["Error", "Handle", "KernelInfo", "Model", "ModelInfo", "TensorInfo", "load", "version"]
__version__ = "0.1.0"
