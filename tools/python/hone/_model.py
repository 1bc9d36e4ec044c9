# SPDX-License-Identifier: Apache-2.0
"""Handles and models."""
import ctypes
import os
import warnings
from collections import namedtuple

from ._library import (
    IO,
    NOTFOUND,
    USAGE,
    DeviceError,
    CacheWarning,
    DeviceWarning,
    FolderError,
    Info,
    InputError,
    InputTypeError,
    Kernel,
    LoadOptions,
    Options,
    Tensor,
    callers_level,
    check,
    cut,
    lib,
    made,
)
from ._sizes import shapes_for
from ._tensors import Places, ShapeError

TensorInfo = namedtuple("TensorInfo", "name dtype shape bytes")
KernelInfo = namedtuple("KernelInfo", "name what origin flops bytes")
_ModelInfo = namedtuple(
    "ModelInfo",
    "tuned default fallback portable threads refreshed from_image load_ms weight_bytes tensor_bytes target remedy "
    "at_default on_device device device_why",
)


class ModelInfo(_ModelInfo):
    """What a model runs with. device: where it runs, "cpu", "opencl:0" or "cuda:0"; on_device: its kernels there; device_why: why
    it is not the device that was asked for, or ""."""

    __slots__ = ()

    def __repr__(self):
        return (
            f"<hone.ModelInfo: kernels {self.tuned} tuned, {self.default} default, {self.fallback} fallback, "
            f"{self.portable} portable; {self._place()}{_threads(self.threads)}; loaded in {self.load_ms:.1f} ms; "
            f"weights {self.weight_bytes / 2**20:.1f} MiB>"
        )

    def _place(self):
        if self.device_why:
            return f"on {self.device} ({_one_line(self.device_why, 100)}); "
        return f"{self.on_device} on {self.device}; " if self.on_device else ""


def _threads(n):
    return f"{n} thread" + "s" * (n != 1)


def _one_line(text, most):
    """A text of the library or of a driver, on one line."""
    return cut(" ".join(text.split()), most)


def _brief(tensors):
    """At most 3 tensors as text, as in camera f32 1x3x66x200; names come from the model, so they are escaped and cut."""
    words = [
        f"{cut(repr(t.name)[1:-1], 40)} {t.dtype} {'x'.join(map(str, t.shape)) or 'scalar'}" for t in tensors[:3]
    ]
    return ", ".join(words) + (f" and {len(tensors) - 3} more" if len(tensors) > 3 else "")


EXACT, NO_PIN, KEEP_IMAGES, VERBOSE, W16, INT8, HALF, HALF_SUM, NEEDS_RECIPE = 1, 2, 4, 8, 16, 32, 64, 128, 256
_LEVELS = {"exact": EXACT, "fp32": 0, "w16": W16, "half": HALF, "half-sum": HALF_SUM, "int8": INT8}


def _level_flag(level, given):
    """The flag of a level's name; given: what exact, w16, int8 and half say."""
    if not isinstance(level, str) or level not in _LEVELS:
        raise InputError(USAGE, f"no level {cut(repr(level), 40)}; there are: {', '.join(_LEVELS)}")
    if given & ~_LEVELS[level]:
        raise InputError(USAGE, f"level={level!r} and another of exact, w16, int8 and half exclude each other")
    return _LEVELS[level]


_forks = [0]  # forks by Python that led to this process since the import; a fork by C code is not noticed


def _forked():
    _forks[0] += 1


os.register_at_fork(after_in_child=_forked)


def _own(forks):
    """After os.fork() threads and locks are the parent's: a child would wait for them for ever."""
    if _forks[0] != forks:
        raise RuntimeError("this model was loaded before os.fork(): load it again in the child")


def _texts(words):
    return (ctypes.c_char_p * max(len(words), 1))(*[os.fsencode(w) for w in words])


_told = set()  # folders that a CacheWarning named


def _tell_missing(folders):
    for folder in map(os.fsdecode, folders):
        if folder and not os.path.isdir(folder) and folder not in _told:
            _told.add(folder)
            what = "is not a folder" if os.path.exists(folder) else "does not exist"
            warnings.warn(f"cache {folder!r} {what}, so models run with the library's own kernels until `hone tune MODEL "
                          "--cache FOLDER` has made it and Model.refresh() has found it", CacheWarning,
                          stacklevel=callers_level())


class Handle:
    """Threads and caches, which models share. Models of a handle with several threads take turns on them."""

    def __init__(
        self,
        caches=None,
        threads=0,
        exact=False,
        pin=True,
        keep_images=False,
        verbose=False,
        w16=False,
        int8=False,
        half=False,
        level=None,
        device=None,
        strict_device=False,
    ):
        """caches: a cache folder, or several (None: the user's, then honed's); one that is missing counts as empty, as it
        may come later, and a CacheWarning names it once; threads: 0 for every core; exact: no kernel that changes the
        set of multiplications; pin: each thread stays on its core; keep_images: keep what a load prepares beside the
        cache, so that the next one is faster; verbose: tell what is loaded, on stderr; w16: weights may be kept as f16;
        int8: models run as 8-bit integers, and hone tune MODEL --level int8 --data DIR must have seen
        examples of inputs for each of floats; half: products may be those of 16-bit floats; level: the same by one name,
        as --level of hone takes it: "exact", "fp32" (the default), "w16", "half", "half-sum" (on Arm, sums of products of
        16-bit floats are made in 16 bits, too) or "int8"; device: "opencl:0" or "cuda:0", as `hone devices` lists it, or "cpu" (None:
        $HONE_DEVICE, else "cpu"). Models run there with the kernels that `hone tune MODEL --device NAME` has made. If
        the device is absent or lost, also during a run, or a cache has no kernel of the model for it, the processor runs
        the model: Model.device names what runs, ModelInfo.device_why says why, and a DeviceWarning says it once.
        strict_device: that is a DeviceError instead."""
        self._h = None
        given = EXACT * bool(exact) | W16 * bool(w16) | INT8 * bool(int8) | HALF * bool(half)
        if level is not None:
            given = _level_flag(level, given)
        o = made(Options)
        if caches is not None:
            words = [caches] if isinstance(caches, (str, os.PathLike)) else list(caches)
            o.caches, o.ncaches = _texts(words), len(words)
            _tell_missing(words)
        if device is not None and (not isinstance(device, str) or "\0" in device):
            raise InputError(USAGE, f"device {cut(repr(device), 40)}: give a name, as 'cpu', 'opencl:0' or 'cuda:0'; "
                                    "`hone devices` lists what there is")
        o.device = device if device is None else os.fsencode(device)
        o.threads = threads
        if given & INT8:
            given |= NEEDS_RECIPE
        o.flags = given | NO_PIN * (not pin) | KEEP_IMAGES * bool(keep_images) | VERBOSE * bool(verbose)
        h = ctypes.c_void_p()
        check(lib.hone_open(ctypes.byref(o), ctypes.byref(h)))
        self._h = h
        self._forks = _forks[0]
        self._device = device or os.environ.get("HONE_DEVICE") or "cpu"
        self._strict = bool(strict_device)

    @property
    def threads(self):
        return lib.hone_threads(self._h)

    def __repr__(self):
        if not getattr(self, "_h", None) or self._forks != _forks[0]:
            return "<hone.Handle: not usable>"
        return f"<hone.Handle: {self._device + ', ' if self._device != 'cpu' else ''}{_threads(self.threads)}>"

    def __reduce__(self):
        _no_copy(self)

    def load(self, model, shapes=None):
        """model: a path, or the bytes of an ONNX file. shapes: {"image": (1, 3, 320, 320), "N": 4}."""
        return Model(self, model, shapes)

    def __del__(self):
        if getattr(self, "_h", None) and self._forks == _forks[0]:
            lib.hone_close(self._h)


_OPTIONS = ("caches", "threads", "exact", "pin", "keep_images", "verbose", "w16", "int8", "half", "level",
            "device", "strict_device")


def load(model, shapes=None, **options):
    """A model with a handle of its own; options as those of Handle, all with defaults:

    model: a path, or the bytes of an ONNX file. shapes: {"image": (1, 3, 320, 320), "N": 4}.
    caches: a cache folder, or several (None: the user's, then honed's). threads: 0 for every core.
    level: "exact", "fp32" (the default), "w16", "half", "half-sum" or "int8"; the flags exact, w16, half and int8
    ask for four of them.
    device: "opencl:0", "cuda:0" or "cpu"; strict_device: it is an error if the processor runs the model instead.
    pin: each thread stays on its core. keep_images: the next load is faster. verbose: tell what is loaded, on stderr.

    help(hone.Handle) says more of each."""
    for name in options:
        if name not in _OPTIONS:
            raise TypeError(f"hone.load has no option '{name}'; there are: shapes, {', '.join(_OPTIONS)}")
    return Handle(**options).load(model, shapes)


def _is_folder(path):
    """What to give in place of a folder without a compiled model."""
    try:
        models = sorted(name for name in os.listdir(path) if name.endswith(".onnx"))
    except OSError:
        models = []
    found = f", as {os.path.join(path, models[0])!r}," if models else ""
    return (f"{path} is a folder without a compiled model: give a model file{found} or a folder that "
            "`hone compile MODEL -o FOLDER` made")


class _Loaded:
    """A model of the library. Calls that still run hold it, so that close() beside them frees nothing too early."""

    __slots__ = ("m", "handle")

    def __init__(self, m, handle):
        self.m, self.handle = m, handle

    def __repr__(self):
        return "<hone._Loaded>"

    def __del__(self):
        if self.handle._forks == _forks[0]:
            lib.hone_model_close(self.m)


def _no_copy(self):
    raise TypeError(f"a hone.{type(self).__name__} cannot be copied or pickled: its memory is the library's; load the model again")


class Model:
    """A network, ready to run. Any thread may call it; calls take turns. close(), or the end of a with statement, gives
    its memory back, once calls of other threads have ended; without it, that happens when nothing refers to the model any
    more. A closed model raises an InputError, which is a ValueError."""

    __reduce__ = _no_copy

    def __init__(self, handle, model, shapes=None):
        self._loaded = None
        self._name = "from bytes"
        self._path = None
        _own(handle._forks)
        o = made(LoadOptions)
        words = []
        if shapes is not None and not hasattr(shapes, "items"):
            raise TypeError("shapes is a dict, such as {'image': (1, 3, 224, 224)}")
        for name, dims in (shapes or {}).items():
            words.append(f"{name}=" + ("x".join(map(str, dims)) if isinstance(dims, (list, tuple)) else str(dims)))
        o.shapes, o.nshapes = _texts(words), len(words)
        m = ctypes.c_void_p()
        if isinstance(model, (bytes, bytearray, memoryview)):
            model = bytes(model)
            check(lib.hone_load_bytes(handle._h, model, len(model), ctypes.byref(o), ctypes.byref(m)))
        else:
            self._path = os.fspath(model)
            self._name = os.path.basename(os.fsdecode(model))
            rc = lib.hone_load(handle._h, os.fsencode(model), ctypes.byref(o), ctypes.byref(m))
            if rc == NOTFOUND and os.path.isdir(model) and not os.path.exists(os.path.join(os.fsdecode(model), "plan.hone")):
                raise FolderError(rc, _is_folder(os.fsdecode(model)))
            check(rc)
        self._loaded = _Loaded(m, handle)
        self._forks = handle._forks
        self.inputs = self._tensors(lib.hone_inputs, lib.hone_input)
        self.outputs = self._tensors(lib.hone_outputs, lib.hone_output)
        self._ins, self._outs = Places(self.inputs), Places(self.outputs)
        self._there = self._warned = False  # it runs on the device that was asked for, if that is not the processor
        self._look(self._loaded)

    def __repr__(self):
        name = cut(repr(self._name)[1:-1], 60)
        if not getattr(self, "outputs", None) and not getattr(self, "inputs", None):
            return f"<hone.Model {name}: not loaded>"
        loaded = self._loaded
        if not loaded:
            return f"<hone.Model {name}: closed>"
        words = f"{_brief(self.inputs)} -> {_brief(self.outputs)}"
        place = ""
        if loaded.handle._device != "cpu":
            info = self.info
            why = f" ({_one_line(info.device_why, 100)})" if info.device_why else ""
            place = f"on {info.device}{why}, "
        return f"<hone.Model {name}: {words}; {place}{_threads(loaded.handle.threads)}>"

    @property
    def device(self):
        """Where it runs, "cpu", "opencl:0" or "cuda:0": not the device that was asked for if that is absent or lost, or has no
        kernel of the model. info.device_why says why."""
        return lib.hone_device(self._open().m).decode()

    def _look(self, loaded):
        """After what may have moved the model to another device. Warns once that the processor runs it, although
        another device was asked for; if that was asked strictly, it is an error."""
        asked = loaded.handle._device
        if asked == "cpu":
            return
        self._there = lib.hone_device(loaded.m) != b"cpu"
        if self._there or (self._warned and not loaded.handle._strict):
            return
        self._warned = True
        s = made(Info)
        check(lib.hone_summary(loaded.m, ctypes.byref(s)))
        why = _one_line(s.device_why.decode("utf-8", "replace"), 256)
        name = cut(repr(self._name), 60)
        if loaded.handle._strict:
            raise DeviceError(IO, f"the model {name} cannot run on {asked}: {why}")
        warnings.warn(f"the processor runs the model {name}, not {asked}: {why}", DeviceWarning,
                      stacklevel=callers_level())

    def _run_on(self, ins, outs):
        """Each run, with what may be lost in it."""
        loaded = self._open()
        if self._warned and loaded.handle._strict:
            self._look(loaded)  # raises: it was lost before
        check(lib.hone_run_on(loaded.m, ins, outs))
        if self._there:
            self._look(loaded)

    def close(self):
        """Gives the memory back, once calls of other threads have ended. A second call does nothing."""
        self._loaded = None

    def __enter__(self):
        self._open()
        return self

    def __exit__(self, *_error):
        self.close()

    def _open(self):
        """What the library loaded; the caller must hold it while it uses .m."""
        loaded = self._loaded
        if loaded is None:
            raise InputError(USAGE, f"the model {cut(repr(self._name), 60)} is closed: load it again")
        if _forks[0] != self._forks:
            _own(self._forks)
        return loaded

    def _tensors(self, count, get):
        all_of = []
        m = self._loaded.m
        for i in range(count(m)):
            t = made(Tensor)
            check(get(m, i, ctypes.byref(t)))
            name = t.name.decode("utf-8", "replace")
            all_of.append(
                TensorInfo(name, lib.hone_dtype_name(t.dtype).decode(), tuple(t.shape[: t.rank]), t.bytes)
            )
        return all_of

    def _ordered(self, arrays, named):
        arrays = list(arrays)
        names = [t.name for t in self.inputs]
        for name in named:
            if name not in names:
                raise InputTypeError(USAGE, f"no input '{name}'; there are: {', '.join(names)}")
        if len(arrays) > len(names):
            raise InputTypeError(USAGE, f"{len(arrays)} inputs are given; the model has {len(names)}: {', '.join(names)}")
        for name in names[: len(arrays)]:
            if name in named:
                raise InputTypeError(USAGE, f"input '{name}' is given twice")
        missing = [n for n in names[len(arrays) :] if n not in named]
        if missing:
            raise InputTypeError(USAGE, f"missing inputs: {', '.join(missing)}")
        return arrays + [named[n] for n in names[len(arrays) :]]

    def run(self, *arrays, **named):
        """The outputs, a list in the model's order. A NaN in an input need not show in them: see help(hone)."""
        self._open()
        ins, outs, _held, outputs = self._places(arrays, named)
        self._run_on(ins, outs)
        return outputs

    def _other_shape(self, e):
        given = shapes_for(self._path, e.info.name, e.info.shape, e.shape) if self._path else ""
        hint = f": load the model with shapes={given}, as its file leaves that size free" if given else ""
        return InputError(USAGE, f"'{e.info.name}' has shape {e.info.shape}, not {e.shape}{hint}")

    def _places(self, arrays, named):
        if named or len(arrays) != len(self.inputs):
            arrays = self._ordered(arrays, named)
        try:
            ins, held = self._ins.of(arrays)
        except ShapeError as e:
            raise self._other_shape(e) from None
        outs, outputs = self._outs.new()
        return ins, outs, held, outputs

    def bind(self, *arrays, **named):
        """A function without arguments that runs the model on these inputs and returns its outputs, the same arrays at
        each call: for small models, where looking at the arrays takes longer than the run. It reads what is in the
        inputs when it is called; an input that had to be converted stays as it was at the bind. Threads that share the
        function share the outputs."""
        self._open()
        ins, outs, held, outputs = self._places(arrays, named)

        def run_bound(held=held):
            self._run_on(ins, outs)
            return outputs

        return run_bound

    def __call__(self, *arrays, **named):
        """As run; of a model with one output that output alone."""
        outputs = self.run(*arrays, **named)
        return outputs[0] if len(outputs) == 1 else outputs

    def refresh(self):
        """Picks up better kernels from the caches, while other threads run on. True: something changed."""
        loaded = self._open()
        changed = check(lib.hone_refresh(loaded.m)) > 0
        if changed:
            self._look(loaded)
        return changed

    @property
    def info(self):
        s = made(Info)
        loaded = self._open()
        check(lib.hone_summary(loaded.m, ctypes.byref(s)))
        return ModelInfo(
            *s.kernels,
            s.threads,
            s.refreshed,
            bool(s.from_image),
            s.load_us / 1000,
            s.weight_bytes,
            s.tensor_bytes,
            s.target.decode("utf-8", "replace"),
            s.remedy.decode("utf-8", "replace"),
            s.at_default,
            s.on_device,
            s.device.decode(),
            s.device_why.decode("utf-8", "replace"),
        )

    @property
    def kernels(self):
        all_of = []
        loaded = self._open()
        for i in range(lib.hone_kernels(loaded.m)):
            k = made(Kernel)
            if lib.hone_kernel(loaded.m, i, ctypes.byref(k)) < 0:
                break  # a refresh beside this made fewer
            origin = lib.hone_origin_name(k.origin).decode()
            words = [x.decode("utf-8", "replace") for x in (k.name, k.what)]
            all_of.append(KernelInfo(*words, origin, k.flops, k.bytes))
        return all_of
