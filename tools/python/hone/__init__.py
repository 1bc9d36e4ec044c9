# SPDX-License-Identifier: Apache-2.0
"""Runs neural networks with kernels tuned on this machine: libhone for Python.

    import hone
    model = hone.load("model.onnx")
    scores = model(image)                   # arrays in, arrays out, in the model's order
    out = model(camera=image)               # or by name
    again = model.bind(image)               # again() runs on the same arrays, without looking at them anew
    model = hone.load("model.onnx", device="opencl:0")  # model.device names what runs it
    model.close()                           # or: with hone.load("model.onnx") as model: ...

Inputs are numpy arrays, or anything else on the CPU that has __dlpack__ (PyTorch, JAX, CuPy on the host) or the buffer
protocol; what has the model's dtype and lies row-major is not copied. A numpy array of another dtype is converted if each
value stays as it is and of its kind, and from a wider float, with one warning; all others, as uint8 for float32, are
errors. Outputs are numpy arrays, which have __dlpack__ themselves; without numpy, memoryviews. `hone.load` takes what
hone.h's structures take: see Handle and Model. If a device that was asked for cannot run a model, the processor does, and a
hone.DeviceWarning says why; with strict_device=True that is a hone.DeviceError. A cache folder that
is named and missing is a hone.CacheWarning. A call releases the interpreter's lock while the model runs.

Values are not checked: kernels of Max, MaxPool, Relu and Clip may drop a NaN, so a NaN in an input need not show in the
outputs. Check inputs that may hold one, as with numpy.isfinite.

What hone raises is a hone.Error, and most are Python's own kinds too: NotFoundError is a FileNotFoundError, FolderError also an
IsADirectoryError, InputError a ValueError, InputTypeError a TypeError, FormatError a ValueError, HostError (also DeviceError) an OSError, OutOfMemoryError a MemoryError,
TimedOutError a TimeoutError, UnsupportedError a NotImplementedError.
"""
from ._library import (
    BusyError,
    CacheWarning,
    DeviceError,
    DeviceWarning,
    Error,
    FolderError,
    FormatError,
    HostError,
    InputError,
    InputTypeError,
    NotFoundError,
    OutOfMemoryError,
    TimedOutError,
    UnsupportedError,
    version,
)
from ._model import Handle, KernelInfo, Model, ModelInfo, TensorInfo, load

__all__ = [
    "BusyError",
    "CacheWarning",
    "DeviceError",
    "DeviceWarning",
    "Error",
    "FolderError",
    "FormatError",
    "Handle",
    "HostError",
    "InputError",
    "InputTypeError",
    "KernelInfo",
    "Model",
    "ModelInfo",
    "NotFoundError",
    "OutOfMemoryError",
    "TensorInfo",
    "TimedOutError",
    "UnsupportedError",
    "load",
    "version",
]
for _kind in (BusyError, CacheWarning, DeviceError, DeviceWarning, Error, FolderError, FormatError, HostError, InputError,
              InputTypeError, NotFoundError, OutOfMemoryError, TimedOutError, UnsupportedError, Handle, KernelInfo, Model, ModelInfo,
              TensorInfo):
    _kind.__module__ = "hone"  # where users find it, in tracebacks and pickles
del _kind
__version__ = "0.1.0"
