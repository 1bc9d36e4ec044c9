# SPDX-License-Identifier: Apache-2.0
import os
from typing import Any, Callable, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

class Error(RuntimeError):
    status: int
    def __init__(self, status: int, text: str) -> None: ...

class InputError(Error, ValueError): ...
class InputTypeError(Error, TypeError): ...
class OutOfMemoryError(Error, MemoryError): ...
class HostError(Error, OSError): ...
class DeviceError(HostError): ...
class CacheWarning(RuntimeWarning): ...
class DeviceWarning(RuntimeWarning): ...
class FormatError(Error, ValueError): ...
class UnsupportedError(Error, NotImplementedError): ...
class NotFoundError(Error, FileNotFoundError): ...
class FolderError(NotFoundError, IsADirectoryError): ...
class TimedOutError(Error, TimeoutError): ...
class BusyError(Error): ...

class TensorInfo(NamedTuple):
    name: str
    dtype: str
    shape: Tuple[int, ...]
    bytes: int

class KernelInfo(NamedTuple):
    name: str
    what: str
    origin: str
    flops: float
    bytes: float

class ModelInfo(NamedTuple):
    tuned: int
    default: int
    fallback: int
    portable: int
    threads: int
    refreshed: int
    from_image: bool
    load_ms: float
    weight_bytes: int
    tensor_bytes: int
    target: str
    remedy: str
    at_default: int
    on_device: int
    device: str
    device_why: str

_Path = Union[str, "os.PathLike[str]"]
_Shapes = Optional[Mapping[str, Union[int, str, Sequence[int]]]]

class Handle:
    def __init__(
        self,
        caches: Union[None, _Path, Iterable[_Path]] = ...,
        threads: int = ...,
        exact: bool = ...,
        pin: bool = ...,
        keep_images: bool = ...,
        verbose: bool = ...,
        w16: bool = ...,
        int8: bool = ...,
        half: bool = ...,
        level: Optional[str] = ...,
        device: Optional[str] = ...,
        strict_device: bool = ...,
    ) -> None: ...
    @property
    def threads(self) -> int: ...
    def load(self, model: Union[_Path, bytes, bytearray, memoryview], shapes: _Shapes = ...) -> Model: ...

class Model:
    inputs: List[TensorInfo]
    outputs: List[TensorInfo]
    def __init__(
        self, handle: Handle, model: Union[_Path, bytes, bytearray, memoryview], shapes: _Shapes = ...
    ) -> None: ...
    def run(self, *arrays: Any, **named: Any) -> List[Any]: ...
    def bind(self, *arrays: Any, **named: Any) -> Callable[[], List[Any]]: ...
    def __call__(self, *arrays: Any, **named: Any) -> Any: ...
    def refresh(self) -> bool: ...
    @property
    def device(self) -> str: ...
    @property
    def info(self) -> ModelInfo: ...
    @property
    def kernels(self) -> List[KernelInfo]: ...
    def close(self) -> None: ...
    def __enter__(self) -> "Model": ...
    def __exit__(self, *error: Any) -> None: ...

def load(
    model: Union[_Path, bytes, bytearray, memoryview],
    shapes: _Shapes = ...,
    *,
    caches: Union[None, _Path, Iterable[_Path]] = ...,
    threads: int = ...,
    exact: bool = ...,
    pin: bool = ...,
    keep_images: bool = ...,
    verbose: bool = ...,
    w16: bool = ...,
    int8: bool = ...,
    half: bool = ...,
    level: Optional[str] = ...,
    device: Optional[str] = ...,
    strict_device: bool = ...,
) -> Model: ...
def version() -> str: ...
