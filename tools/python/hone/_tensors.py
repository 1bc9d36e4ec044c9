# SPDX-License-Identifier: Apache-2.0
"""Arrays to addresses and back: numpy where it is there, DLPack, the buffer protocol."""
import ctypes
import math
import sys
import warnings

from ._library import USAGE, InputError, InputTypeError, callers_level

try:
    import numpy
except ImportError:
    numpy = None

# hone's name: DLPack's code and bits, the buffer protocol's letters.
_DTYPES = {
    "f32": (2, 32, "f"),
    "f64": (2, 64, "d"),
    "f16": (2, 16, "e"),
    "bf16": (4, 16, ""),
    "i8": (0, 8, "b"),
    "u8": (1, 8, "B"),
    "i16": (0, 16, "h"),
    "u16": (1, 16, "H"),
    "i32": (0, 32, "il"),
    "u32": (1, 32, "IL"),
    "i64": (0, 64, "ql"),
    "u64": (1, 64, "QL"),
    "bool": (6, 8, "?"),
}
_CPU = (1, 3, 11)  # plain, pinned for CUDA, pinned for ROCm


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_ndarray = None if numpy is None else numpy.ndarray
_addressof, _byte_of = ctypes.addressof, ctypes.c_char.from_buffer
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


class ShapeError(Exception):
    """An array has another shape than the input; the model makes an InputError of it."""

    def __init__(self, info, shape):
        super().__init__(info, shape)
        self.info, self.shape = info, tuple(shape)


def _row_major(shape, strides):
    expect = 1
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent != 1 and stride != expect:
            return False
        expect *= extent
    return True


def _from_dlpack(x, info):
    """The address and what keeps it; the capsule is not consumed, so that its owner frees it."""
    device = x.__dlpack_device__()[0]
    if int(device) not in _CPU:
        raise InputTypeError(USAGE, f"'{info.name}': the array is not in the processor's memory (DLPack device {int(device)})")
    capsule = x.__dlpack__()
    t = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    shape = tuple(t.shape[i] for i in range(t.ndim))
    code, bits, _ = _DTYPES[info.dtype]
    if (t.code, t.bits, t.lanes) != (code, bits, 1) and not (info.dtype == "bool" and t.code == 1 and t.bits == 8):
        raise InputTypeError(USAGE, f"'{info.name}' is {info.dtype}, not DLPack type {t.code} of {t.bits} bits")
    if shape != info.shape:
        raise ShapeError(info, shape)
    if t.strides and not _row_major(shape, [t.strides[i] for i in range(t.ndim)]):
        raise InputError(USAGE, f"'{info.name}' does not lie row-major: make it contiguous")
    return (t.data or 0) + t.byte_offset, (capsule, x)


def _wanted(info):
    """As in: an array of f32 and shape (1, 3, 66, 200)."""
    return f"an array of {info.dtype} and shape {info.shape}"


def _kind_of(x):
    return "None" if x is None else f"an object of type {type(x).__name__}"


def _wrong_type(x, info):
    """The error for an array whose values would change if its type were converted without a word."""
    remedy = f"x.astype('{numpy_dtype(info.dtype).name}')"
    if info.dtype[0] == "f" and x.dtype.kind in "iu":
        remedy += ", scaled as the model was trained (pictures: often / 255)"
    return InputTypeError(USAGE, f"'{info.name}' takes {_wanted(info)}, not of {x.dtype}: convert it, as in {remedy}")


_narrowed = []  # holds the first input that was narrowed: one warning is enough


def _convert(x, info):
    """A numpy array in the input's type. A wider type of the same kind takes each value as it is; a wider float, such as
    float64, numpy's own default, is rounded, with one warning. All else is an error, as with ONNX Runtime."""
    want = numpy_dtype(info.dtype)
    if x.dtype == want:
        return x.astype(want, copy=False)
    if x.dtype.kind != want.kind or not (want.kind == "f" or numpy.can_cast(x.dtype, want)):
        raise _wrong_type(x, info)
    if x.dtype.itemsize > want.itemsize and not _narrowed:
        _narrowed.append(info.name)
        warnings.warn(f"'{info.name}' is {info.dtype}: {x.dtype} is converted at each call; "
                      f"give x.astype('{want.name}') to save the time", stacklevel=callers_level())
    return x.astype(want)


def _from_numbers(x, info):
    """Python's numbers and lists of them, which have no type of their own."""
    try:
        x = numpy.asarray(x)
    except ValueError as e:  # lists of different lengths
        raise InputError(USAGE, f"'{info.name}' takes {_wanted(info)}: {e}") from None
    want = numpy_dtype(info.dtype)
    if info.dtype == "bf16":
        return x
    if x.size and x.dtype.kind in "iu" and want.kind in "iu":
        limits = numpy.iinfo(want)
        if int(x.min()) < limits.min or int(x.max()) > limits.max:
            raise InputError(USAGE, f"'{info.name}' is {info.dtype}: its values are {limits.min} to {limits.max}")
    elif x.size and not numpy.can_cast(x.dtype, want, "same_kind"):
        raise InputTypeError(USAGE, f"'{info.name}' takes {_wanted(info)}, not a list of {x.dtype}")
    return x.astype(want)


def _from_buffer(x, info):
    try:
        view = memoryview(x)
    except TypeError:
        raise InputTypeError(USAGE, f"'{info.name}' takes {_wanted(info)} (numpy, DLPack or the buffer protocol), "
                                    f"not {_kind_of(x)}") from None
    letters = _DTYPES[info.dtype][2]
    plain = view.format == "B" and view.ndim == 1 and view.nbytes == info.bytes  # bytes as they lie
    if not plain and (view.format.lstrip("@=<") not in letters or view.itemsize * 8 != _DTYPES[info.dtype][1]):
        raise InputTypeError(USAGE, f"'{info.name}' is {info.dtype}, not '{view.format}'")
    if not view.c_contiguous or view.nbytes != info.bytes or not (plain or view.ndim == 1 or view.shape == info.shape):
        if view.c_contiguous and view.ndim == len(info.shape):
            raise ShapeError(info, view.shape)
        raise InputError(USAGE, f"'{info.name}' has shape {info.shape}, row-major, not {view.shape}")
    if view.readonly:
        copy = ctypes.create_string_buffer(view.tobytes(), max(view.nbytes, 1))
        return ctypes.addressof(copy), copy
    if not view.nbytes:
        return ctypes.addressof(ctypes.c_char()), view
    return ctypes.addressof(ctypes.c_char.from_buffer(view.cast("B"))), view


def address_of(x, info):
    """Where the bytes of an input lie, and an object that must live as long as they are read."""
    if numpy is not None and not isinstance(x, numpy.ndarray) and isinstance(x, (int, float, list, tuple)):
        x = _from_numbers(x, info)
    if numpy is not None and isinstance(x, numpy.ndarray):
        if info.dtype == "bf16":
            if x.dtype.itemsize != 2:
                raise InputTypeError(USAGE, f"'{info.name}' is bf16, not {x.dtype}")
        else:
            x = _convert(x, info)
        if x.shape != info.shape:
            raise ShapeError(info, x.shape)
        x = numpy.require(x, requirements=["C", "A"]).reshape(info.shape)
        return x.ctypes.data, x
    if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        return _from_dlpack(x, info)
    return _from_buffer(x, info)


def numpy_dtype(name):
    kinds = {"f": "f", "i": "i", "u": "u"}
    if name == "bool":
        return numpy.dtype("?")
    if name == "bf16":
        return numpy.dtype("u2")  # numpy has none: its bits
    return numpy.dtype(kinds[name[0]] + str(int(name[1:]) // 8))


def new_output(info):
    """An array of an output's dtype and shape, and its address."""
    if numpy is not None:
        out = numpy.empty(info.shape, numpy_dtype(info.dtype))
        return out, out.ctypes.data
    room = ctypes.create_string_buffer(max(info.bytes, 1))
    view = memoryview(room).cast("B")[: info.bytes]
    letter = _DTYPES[info.dtype][2][:1] if info.dtype not in ("f16", "bf16") else ""
    if letter and info.bytes and math.prod(info.shape) * struct_bytes(letter) == info.bytes:
        view = view.cast(letter, info.shape) if info.shape else view.cast(letter)
    return view, ctypes.addressof(room)


class Places:
    """Addresses of a model's inputs or outputs, as its calls take them. A call of a small network takes a few microseconds, so
    what does not change from call to call is prepared here."""

    def __init__(self, infos):
        self._array = ctypes.c_void_p * max(len(infos), 1)
        self._expect = [(t, t.shape, numpy_dtype(t.dtype) if numpy is not None else None) for t in infos]

    def __repr__(self):
        return f"<hone Places of {len(self._expect)} tensors>"

    def of(self, arrays):
        """The addresses of inputs, and what must live as long as they are read."""
        at, held = [], []
        for x, (info, shape, dtype) in zip(arrays, self._expect):
            # an array as the model wants it; CARRAY: row-major, aligned, writable
            if type(x) is _ndarray and x.dtype is dtype and x.shape == shape and x.size and x.flags.carray:
                at.append(_addressof(_byte_of(x)))
                held.append(x)
            else:
                address, owner = address_of(x, info)
                at.append(address)
                held.append(owner)
        return self._array(*at), held

    def new(self):
        """The addresses of new outputs, and these."""
        at, made = [], []
        for info, shape, dtype in self._expect:
            if dtype is not None and info.bytes:
                out = numpy.empty(shape, dtype)
                address = _addressof(_byte_of(out))
            else:
                out, address = new_output(info)
            at.append(address)
            made.append(out)
        return self._array(*at), made


def struct_bytes(letter):
    import struct

    return struct.calcsize("@" + letter)


assert sys.byteorder == "little", "libhone runs on little-endian machines"
