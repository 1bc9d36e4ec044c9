# SPDX-License-Identifier: Apache-2.0
"""Which sizes of an input an ONNX file leaves free: only the file says it, and only an error asks it, so the file is read
here, as little of it as that takes."""
import mmap
import os

_GRAPH, _INPUT, _NAME, _TYPE, _TENSOR, _SHAPE, _DIM, _VALUE, _PARAM = 7, 11, 1, 2, 1, 2, 1, 1, 2
_VARINT, _BYTES, _SKIPPED = 0, 2, {1: 8, 5: 4}


def _varint(b, at):
    n = shift = 0
    while True:
        n |= (b[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if not b[at - 1] & 128:
            return n, at
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _fields(b, at, end):
    """The fields of a protobuf message: number, and the value or where the bytes lie."""
    while at < end:
        key, at = _varint(b, at)
        if key & 7 == _VARINT:
            value, at = _varint(b, at)
            yield key >> 3, value
        elif key & 7 == _BYTES:
            n, at = _varint(b, at)
            yield key >> 3, (at, min(at + n, end))
            at += n
        else:
            at += _SKIPPED[key & 7]


def _inside(b, places, *path):
    """The fields that are reached by the path of numbers."""
    for number in path:
        places = [value for place in places for n, value in _fields(b, *place) if n == number]
    return places


def _read(b, name):
    for value_info in _inside(b, [(0, len(b))], _GRAPH, _INPUT):
        words = [b[at:end].decode() for at, end in _inside(b, [value_info], _NAME)]
        if words == [name]:
            dims = [dict(_fields(b, *d)) for d in _inside(b, [value_info], _TYPE, _TENSOR, _SHAPE, _DIM)]
            return [None if _VALUE in d else b[slice(*d[_PARAM])].decode() if _PARAM in d else "" for d in dims]
    return []


def free_sizes(path, name):
    """For each dimension of the input: its name in the file, "" if it has none, or None if the size is fixed. []: not known."""
    try:
        with open(path, "rb") as f, mmap.mmap(f.fileno(), os.fstat(f.fileno()).st_size, access=mmap.ACCESS_READ) as b:
            return _read(b, name)
    except (OSError, ValueError, IndexError, KeyError, TypeError):
        return []


def shapes_for(path, name, was, wanted):
    """What shapes= gives the input the wanted shape, as source text; "": the model fixes its size, or nothing is known."""
    free = free_sizes(path, name)
    if len(free) != len(wanted) or len(was) != len(wanted) or not all(isinstance(n, int) and n > 0 for n in wanted):
        return ""
    given = {}
    for dim, a, b in zip(free, was, wanted):
        if a == b and (not dim or given.get(dim, b) == b):
            continue
        if dim is None or given.get(dim, b) != b:
            return ""
        given[dim] = b
    return repr({name: tuple(wanted)} if "" in given else given)
