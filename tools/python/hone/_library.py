# SPDX-License-Identifier: Apache-2.0
"""libhone.so as ctypes sees it; the structures of hone.h."""
import ctypes
import ctypes.util
import os
import re
import sys

MAX_RANK = 8


USAGE, IO, NOTFOUND = -1, -3, -6


class Error(RuntimeError):
    """What failed, its cause and its remedy; status is one of enum hone_status. The base of all that hone raises, most of
    which are also Python's own exceptions of that kind."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status

    def __str__(self):
        return self.args[0]

    def __repr__(self):
        return f"hone.{type(self).__name__}({cut(self.args[0], 200)!r})"

    def __reduce__(self):
        return type(self), (self.status, self.args[0])


class InputError(Error, ValueError):
    """An argument, an array's shape or an option is wrong."""


class InputTypeError(Error, TypeError):
    """An array's type, or the names or number of the inputs are wrong."""


class OutOfMemoryError(Error, MemoryError):
    """No memory, or more than a limit."""


class HostError(Error, OSError):
    """The system refused."""


class DeviceError(HostError):
    """The device that was asked for strictly cannot run the model."""


class DeviceWarning(RuntimeWarning):
    """The processor runs a model for which another device was asked; the text says why. Not an Error."""


class CacheWarning(RuntimeWarning):
    """A cache folder that was named is not there, so no kernel comes from it. Not an Error: it may come later."""


class FormatError(Error, ValueError):
    """A file is not what it claims to be."""


class UnsupportedError(Error, NotImplementedError):
    """Valid, but not supported by this version or processor."""


class NotFoundError(Error, FileNotFoundError):
    """No such file or folder."""


class FolderError(NotFoundError, IsADirectoryError):
    """A folder without a compiled model was given in place of a model file."""


class TimedOutError(Error, TimeoutError):
    """Not ended in time."""


class BusyError(Error):
    """Another thread or process uses it."""


_KINDS = {
    USAGE: InputError,
    -2: OutOfMemoryError,
    IO: HostError,
    -4: FormatError,
    -5: UnsupportedError,
    NOTFOUND: NotFoundError,
    -7: TimedOutError,
    -8: BusyError,
}


def cut(text, most):
    """A text that is not longer than most characters."""
    return text if len(text) <= most else text[: most - 3] + "..."


class Options(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("caches", ctypes.POINTER(ctypes.c_char_p)),
        ("ncaches", ctypes.c_int),
        ("threads", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("device", ctypes.c_char_p),
    ]


class LoadOptions(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("shapes", ctypes.POINTER(ctypes.c_char_p)),
        ("nshapes", ctypes.c_int),
    ]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_int),
        ("rank", ctypes.c_int),
        ("shape", ctypes.c_int64 * MAX_RANK),
        ("bytes", ctypes.c_size_t),
    ]

    def __repr__(self):
        name = (self.name or b"").decode("utf-8", "replace")
        return f"<hone Tensor {cut(name, 40)!r} {list(self.shape[:max(0, min(self.rank, MAX_RANK))])}>"


class Kernel(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("origin", ctypes.c_int),
        ("name", ctypes.c_char * 128),
        ("what", ctypes.c_char * 128),
        ("flops", ctypes.c_double),
        ("bytes", ctypes.c_double),
    ]


class Info(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("kernels", ctypes.c_int * 4),
        ("threads", ctypes.c_int),
        ("refreshed", ctypes.c_int),
        ("from_image", ctypes.c_int),
        ("load_us", ctypes.c_int64),
        ("weight_bytes", ctypes.c_size_t),
        ("tensor_bytes", ctypes.c_size_t),
        ("target", ctypes.c_char * 160),
        ("remedy", ctypes.c_char * 512),
        ("at_default", ctypes.c_int),
        ("on_device", ctypes.c_int),
        ("device", ctypes.c_char * 16),
        ("device_why", ctypes.c_char * 256),
    ]


def made(kind):
    """A structure with its size set."""
    s = kind()
    s.size = ctypes.sizeof(kind)
    return s


_P, _I, _S = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
_FUNCTIONS = {
    "hone_version": (_S,),
    "hone_error": (_S,),
    "hone_dtype_name": (_S, _I),
    "hone_dtype_bytes": (ctypes.c_size_t, _I),
    "hone_origin_name": (_S, _I),
    "hone_open": (_I, ctypes.POINTER(Options), ctypes.POINTER(_P)),
    "hone_close": (None, _P),
    "hone_threads": (_I, _P),
    "hone_load": (_I, _P, _S, ctypes.POINTER(LoadOptions), ctypes.POINTER(_P)),
    "hone_load_bytes": (_I, _P, _S, ctypes.c_size_t, ctypes.POINTER(LoadOptions), ctypes.POINTER(_P)),
    "hone_model_close": (None, _P),
    "hone_inputs": (_I, _P),
    "hone_outputs": (_I, _P),
    "hone_input": (_I, _P, _I, ctypes.POINTER(Tensor)),
    "hone_output": (_I, _P, _I, ctypes.POINTER(Tensor)),
    "hone_run_on": (_I, _P, ctypes.POINTER(_P), ctypes.POINTER(_P)),
    "hone_refresh": (_I, _P),
    "hone_device": (_S, _P),
    "hone_summary": (_I, _P, ctypes.POINTER(Info)),
    "hone_kernels": (_I, _P),
    "hone_kernel": (_I, _P, _I, ctypes.POINTER(Kernel)),
}


def _installed():
    """The library of the prefix that this package was installed in: PREFIX/lib/libhone.so.1 for
    PREFIX/lib/pythonX/site-packages/hone. None: it lies elsewhere; folders of other names are not searched, because they
    might be anyone's."""
    site = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    python = os.path.dirname(site)
    folder = os.path.dirname(python)
    names = [os.path.basename(d) for d in (site, python, folder)]
    if names[0] not in ("site-packages", "dist-packages") or names[1][:6] != "python" or names[2] != "lib":
        return None
    path = os.path.join(folder, "libhone.so.1")
    return path if os.path.exists(path) else None


def _brought():
    """The library of the wheel that this package came in. None: it came without one."""
    path = os.path.join(os.path.dirname(os.path.realpath(__file__)), "libhone.so.1")
    return path if os.path.exists(path) else None


def _open():
    name = os.environ.get("HONE_LIBRARY") or _brought() or _installed() or ctypes.util.find_library("hone") or "libhone.so.1"
    try:
        library = ctypes.CDLL(name)
    except OSError as e:
        raise ImportError(
            f"{e}; install libhone (make install) or say where it is: HONE_LIBRARY=/path/libhone.so"
        ) from None
    for function, (result, *arguments) in _FUNCTIONS.items():
        f = getattr(library, function)
        f.restype, f.argtypes = result, arguments
    return library


lib = _open()


def callers_level():
    """The stacklevel of the first frame outside the package: calls reach its modules on ways of different length."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__package__") == __package__:
        level, frame = level + 1, frame.f_back
    return level


# How the library's errors name the C structure that gives a shape. Names are as in the model, blanks included.
_GIVEN = r" hone_load_options\.shapes: (.+?=\w+(?: and .+?=\w+)*)"


def _keyword(match):
    """The keyword of hone.load that does what the C structure would, as in shapes={'image': (1, 3, 224, 224)}."""
    words = []
    for name, dims in re.findall(r"(?:^| and )(.+?)=(\w+)", match.group(1)):
        sizes = dims.split("x") if dims[0].isdigit() else [dims]
        words.append(f"{name!r}: " + (f"({', '.join(sizes)})" if len(sizes) > 1 else sizes[0]))
    return " shapes={" + ", ".join(words) + "}"


def check(rc):
    if rc < 0:
        text = lib.hone_error().decode("utf-8", "replace")
        raise _KINDS.get(rc, Error)(rc, re.sub(_GIVEN, _keyword, text))
    return rc


def version():
    """Of the library that runs."""
    return lib.hone_version().decode()
