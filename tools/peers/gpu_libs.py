# SPDX-License-Identifier: Apache-2.0
"""cuDNN, cuBLAS and cuBLASLt on the convolutions and matrix products of models: python3 gpu_libs.py [--device cuda:0]
MODEL.onnx... Prints a JSON object after each layer, so that the last line has all that was done before the time was over:
  {"libraries": {NAME: version, or why it is left out},
   "layers": {LAYER: {"uses", "nodes": {MODEL: names of nodes}, "fp32": {NAME: {"ms", "by"} or why not, "best": NAME},
                      "tf32": the same, "fp16": the same}},
   "wins": {"fp32": {NAME: layers}, "tf32": ..., "fp16": ...}, "wrong": [answers that were not right, which are not timed],
   "left": layers that the time did not suffice for}
Needs Python alone: the driver and the libraries are opened at run time, from where the system has them, from the packages
of PyPI (nvidia-cudnn-cu12, nvidia-cublas-cu12) or from a toolkit. Of cuDNN each algorithm that
cudnnGetConvolutionForwardAlgorithm_v7 lists is timed, of cuBLAS each math mode of its product, of cuBLASLt the first 8
algorithms of its heuristics. An answer is compared with sums that are made here, at some of its elements, and none may be
unwritten. fp16: factors and results are halves, sums are f32; pictures are stored by planes (NCHW) in all modes. Times are medians by CUDA events of graphs that hold a call 20 times, so that no launch counts."""
import array
import ctypes
import glob
import json
import math
import os
import random
import struct
import sys
import time

import bench_gpu

END_S = time.monotonic() + float(os.environ.get("GPU_LIBS_S", 28))  # tools/bench/gpu.sh gives 35 s
WORKSPACE = 256 << 20
CALLS, LAUNCHES, SAMPLES = 20, 7, 32
P, I, Z, L = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_longlong
ONE, NONE = ctypes.c_float(1), ctypes.c_float(0)
F32 = 0  # CUDA_R_32F, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW
MODES = {"fp32": F32, "tf32": F32, "fp16": 2}  # types of elements: CUDA_R_16F, CUDNN_DATA_HALF
UNSET = 0x7e00  # a half that is no number


class Refused(Exception):
    pass


def folders():
    found = glob.glob("/usr/local/cuda*/lib64") + glob.glob("/usr/local/cuda*/targets/*/lib")
    for p in sys.path:
        found += glob.glob(os.path.join(p or ".", "nvidia", "*", "lib"))
    return found


def open_library(names):
    why = "not found"
    for name in names:
        for path in [name] + [os.path.join(f, name) for f in folders()]:
            if "/" in path and not os.path.exists(path):
                continue
            try:
                return ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
            except OSError as e:
                why = str(e)[:200] if "/" in path else why
    raise Refused("%s: %s" % (names[0], why))


def declare(lib, signatures):
    """The functions of a library by their names, each of which raises Refused where its status is not 0."""
    out = {}
    for name, types in signatures.items():
        try:
            f = getattr(lib, name)
        except AttributeError:
            raise Refused("it has no %s" % name) from None
        f.argtypes, f.restype = types, I

        def call(*args, f=f, name=name):
            status = f(*args)
            if status:
                raise Refused("%s: status %d" % (name, status))
        out[name] = call
    return out


class Struct:
    def __init__(self, functions):
        self.__dict__.update(functions)


# ---- the driver ----

class Driver:
    def __init__(self, number):
        d = self.d = Struct(declare(open_library(["libcuda.so.1"]), {
            "cuInit": [ctypes.c_uint], "cuDeviceGet": [P, I], "cuDevicePrimaryCtxRetain": [P, I],
            "cuCtxPushCurrent_v2": [P], "cuStreamCreate": [P, ctypes.c_uint], "cuStreamSynchronize": [P],
            "cuMemAlloc_v2": [P, Z], "cuMemFree_v2": [ctypes.c_uint64],
            "cuMemcpyHtoDAsync_v2": [ctypes.c_uint64, P, Z, P], "cuMemcpyDtoHAsync_v2": [P, ctypes.c_uint64, Z, P],
            "cuEventCreate": [P, ctypes.c_uint], "cuEventRecord": [P, P], "cuEventSynchronize": [P],
            "cuEventElapsedTime": [P, P, P], "cuStreamBeginCapture_v2": [P, I], "cuStreamEndCapture": [P, P],
            "cuGraphInstantiateWithFlags": [P, P, ctypes.c_ulonglong], "cuGraphLaunch": [P, P],
            "cuGraphDestroy": [P], "cuGraphExecDestroy": [P]}))
        d.cuInit(0)
        device, context, self.stream = I(), P(), P()
        d.cuDeviceGet(ctypes.byref(device), number)
        d.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
        d.cuCtxPushCurrent_v2(context)
        d.cuStreamCreate(ctypes.byref(self.stream), 1)  # CU_STREAM_NON_BLOCKING
        self.events = [P(), P()]
        for e in self.events:
            d.cuEventCreate(ctypes.byref(e), 0)

    def wait(self):
        self.d.cuStreamSynchronize(self.stream)

    def memory(self, nbytes):
        at = ctypes.c_uint64()
        self.d.cuMemAlloc_v2(ctypes.byref(at), max(nbytes, 4))
        return at.value

    def free(self, at):
        self.d.cuMemFree_v2(at)

    def put(self, at, values):
        self.d.cuMemcpyHtoDAsync_v2(at, values.buffer_info()[0], len(values) * values.itemsize, self.stream)
        self.wait()

    def get(self, at, n, code):
        out = array.array(code, bytes(array.array(code).itemsize * n))
        self.d.cuMemcpyDtoHAsync_v2(out.buffer_info()[0], at, out.itemsize * n, self.stream)
        self.wait()
        return out

    def captured(self, run):
        """A graph that holds run() CALLS times; None: the library cannot be captured."""
        graph, launch = P(), P()
        try:
            self.d.cuStreamBeginCapture_v2(self.stream, 1)  # CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        except Refused:
            return None
        try:
            for _ in range(CALLS):
                run()
            self.d.cuStreamEndCapture(self.stream, ctypes.byref(graph))
        except Refused:
            try:
                self.d.cuStreamEndCapture(self.stream, ctypes.byref(graph))
            except Refused:  # the capture was broken
                pass
            return None
        self.d.cuGraphInstantiateWithFlags(ctypes.byref(launch), graph, 0)
        self.d.cuGraphDestroy(graph)
        return launch

    def ms(self, run):
        """The median time of one run()."""
        graph, times = self.captured(run), []
        for _ in range(LAUNCHES):
            took = ctypes.c_float()
            self.d.cuEventRecord(self.events[0], self.stream)
            for _ in range(1 if graph else CALLS):
                self.d.cuGraphLaunch(graph, self.stream) if graph else run()
            self.d.cuEventRecord(self.events[1], self.stream)
            self.d.cuEventSynchronize(self.events[1])
            self.d.cuEventElapsedTime(ctypes.byref(took), *self.events)
            times.append(took.value / CALLS)
        if graph:
            self.d.cuGraphExecDestroy(graph)
        return sorted(times[1:])[len(times[1:]) // 2]  # the first one warms up


# ---- layers ----

class Conv:
    def __init__(self, x, w, a):
        self.n, self.c, self.h, self.w = x
        self.k, _, self.r, self.s = w
        self.stride, self.dil = a.get("strides") or [1, 1], a.get("dilations") or [1, 1]
        self.groups = a.get("group", 1)
        shape = type("", (), {"shape": x})
        window = [(k - 1) * d + 1 for k, d in zip(w[2:], self.dil)]
        left, right, top, bottom = bench_gpu.pads_of(a, shape, window, self.stride)
        self.pad, self.even = [top, left], left == right and top == bottom
        self.out = [(n + p - k) // s + 1 for n, p, k, s in
                    zip(x[2:], (top + bottom, left + right), window, self.stride)]
        self.name = "conv %s %s/%s pad %s dilation %s groups %d" % (
            "x".join(map(str, x)), "x".join(map(str, w)), *(",".join(map(str, v)) for v in (
                self.stride, (top, left, bottom, right), self.dil)), self.groups)
        self.depth = self.c // self.groups * self.r * self.s
        self.sizes = [math.prod(x), math.prod(w), self.n * self.k * math.prod(self.out)]
        self.shape = [self.n, self.k, *self.out]

    def element(self, a, b, i):
        """Element i of the result, where a(i) and b(i) are elements of the picture and the filters."""
        i, x = divmod(i, self.out[1])
        i, y = divmod(i, self.out[0])
        n, k = divmod(i, self.k)
        each, first, total = self.c // self.groups, k // (self.k // self.groups) * (self.c // self.groups), 0.0
        for r in range(self.r):
            v = y * self.stride[0] - self.pad[0] + r * self.dil[0]
            for s in range(self.s):
                u = x * self.stride[1] - self.pad[1] + s * self.dil[1]
                if 0 <= v < self.h and 0 <= u < self.w:
                    for c in range(each):
                        total += a(((n * self.c + first + c) * self.h + v) * self.w + u) * \
                            b(((k * each + c) * self.r + r) * self.s + s)
        return total

    def product(self):
        """The same as a product, with its factors in other order; None: it is none."""
        if self.r * self.s == 1 and self.groups == 1 and self.stride == [1, 1] and self.even and self.pad == [0, 0]:
            return Product(self.n, self.k, self.h * self.w, self.c, swapped=True, shared=self.n > 1)
        return None


class Product:
    """c[batch][m][n] = a[batch][m][k] b[batch][k][n], or b[n][k] where it is transposed. swapped: `a` is the second of
    the layer's inputs, and one for the whole batch if it is shared."""
    def __init__(self, batch, m, n, k, trans=False, swapped=False, shared=False):
        self.batch, self.m, self.n, self.k, self.trans, self.swapped = batch, m, n, k, trans, swapped
        self.shared = shared
        self.depth, self.name = k, "product %dx%dx%d k%d%s" % (batch, m, n, k, " transposed" if trans else "")
        self.sizes = [batch * m * k, batch * k * n, batch * m * n]

    def element(self, a, b, i):
        i, n = divmod(i, self.n)
        batch, m = divmod(i, self.m)
        at, bt = (batch * self.m + m) * self.k, batch * self.k * self.n
        if self.trans:
            return sum(a(at + k) * b(bt + n * self.k + k) for k in range(self.k))
        return sum(a(at + k) * b(bt + k * self.n + n) for k in range(self.k))

    def product(self):
        return self


def spread(a, b):
    """The shape of a result of tensors that are broadcast."""
    n = max(len(a), len(b))
    a, b = [1] * (n - len(a)) + list(a), [1] * (n - len(b)) + list(b)
    return [max(p, q) for p, q in zip(a, b)]


def matmul(a, b):
    if len(b) == 2 or math.prod(b[:-2]) == 1:
        return Product(1, math.prod(a[:-1]), b[-1], a[-1]), [*a[:-1], b[-1]]
    if a[:-2] != b[:-2]:
        return None, [*spread(a[:-2], b[:-2]), a[-2], b[-1]]
    return Product(math.prod(a[:-2]), a[-2], b[-1], a[-1]), [*a[:-1], b[-1]]


def out_shape(n, x, ints):
    """The shapes of a node's results; x: those of its inputs; ints(i): input i, a constant."""
    op, a = n["op"], n["a"]
    if op in ("MaxPool", "AveragePool"):
        window, stride = a["kernel_shape"], a.get("strides") or [1, 1]
        left, right, top, bottom = bench_gpu.pads_of(a, type("", (), {"shape": x[0]}), window, stride)
        up = stride if a.get("ceil_mode") else [1, 1]
        return [x[0][:2] + [(d + p - k + u - 1) // s + 1 for d, p, k, s, u in
                            zip(x[0][2:], (top + bottom, left + right), window, stride, up)]]
    if op == "GlobalAveragePool":
        return [x[0][:2] + [1, 1]]
    if op in ("Add", "Sub", "Mul", "Div", "Pow"):
        return [spread(x[0], x[1])]
    if op == "Transpose":
        return [[x[0][p] for p in a.get("perm") or list(range(len(x[0])))[::-1]]]
    if op == "Reshape":
        shape = [x[0][i] if d == 0 else d for i, d in enumerate(ints(1))]
        return [[math.prod(x[0]) // -math.prod(shape) if d < 0 else d for d in shape]]
    if op == "Flatten":
        return [[math.prod(x[0][:a.get("axis", 1)]), math.prod(x[0][a.get("axis", 1):])]]
    if op == "Concat":
        axis = a["axis"] % len(x[0])
        return [[sum(s[axis] for s in x) if i == axis else d for i, d in enumerate(x[0])]]
    if op == "Gather":
        axis = a.get("axis", 0)
        return [x[0][:axis] + x[1] + x[0][axis + 1:]]
    if op in ("Relu", "Sigmoid", "Tanh", "Erf", "Sqrt", "Exp", "Identity", "HardSwish", "HardSigmoid", "Neg", "Reciprocal",
              "Elu", "Clip", "BatchNormalization", "Softmax", "LayerNormalization", "Gelu", "Dropout"):
        return [x[0]]
    raise NotImplementedError("%s: its shape is not known here" % op)


def layers_of(path):
    """[(layer, names of its nodes)], the same layer once."""
    g, found = bench_gpu.graph(path, floats=False), {}
    shapes = {name: list(t[1]) for name, t in g["init"].items()}
    shapes.update({name: list(dims) for name, dims in g["in"]})
    values = {name: t[3] for name, t in g["init"].items()}
    for n in g["nodes"]:
        x = [shapes[i] if i else None for i in n["in"]]
        layer = None
        if n["op"] == "Constant":
            shapes[n["out"][0]], values[n["out"][0]] = list(n["a"]["value"][1]), n["a"]["value"][3]
            continue
        if n["op"] == "Conv":
            layer = Conv(x[0], x[1], n["a"])
            out = [layer.shape]
        elif n["op"] == "Gemm":
            m, k = x[0][::-1] if n["a"].get("transA") else x[0]
            layer = Product(1, m, x[1][0 if n["a"].get("transB") else 1], k, trans=bool(n["a"].get("transB")))
            out = [[layer.m, layer.n]]
        elif n["op"] == "MatMul":
            layer, y = matmul(*x[:2])
            out = [y]
        else:
            out = out_shape(n, x, lambda i: [int(v) for v in values[n["in"][i]]])
        shapes.update(zip(n["out"], out))
        if layer:
            found.setdefault(layer.name, (layer, []))[1].append(n["name"] or n["out"][0])
    return list(found.values())


# ---- libraries: each yields (what it is called, what starts it) ----

class AlgoPerf(ctypes.Structure):  # cudnnConvolutionFwdAlgoPerf_t
    _fields_ = [("algo", I), ("status", I), ("time", ctypes.c_float), ("memory", Z), ("determinism", I),
                ("math", I), ("reserved", I * 3)]


class Cudnn:
    ALGORITHMS = ["implicit gemm", "implicit precomputed gemm", "gemm", "direct", "fft", "fft tiling", "winograd",
                  "winograd nonfused"]

    def __init__(self, driver):
        lib = open_library(["libcudnn.so.9", "libcudnn.so.8"])
        six, three = [P, I, I, I, I, I, I], [P] * 5
        self.c = c = Struct(declare(lib, {
            "cudnnCreate": [P], "cudnnSetStream": [P, P], "cudnnCreateTensorDescriptor": [P],
            "cudnnCreateFilterDescriptor": [P], "cudnnCreateConvolutionDescriptor": [P],
            "cudnnSetTensor4dDescriptor": six, "cudnnSetFilter4dDescriptor": six,
            "cudnnSetConvolution2dDescriptor": [P] + [I] * 8, "cudnnSetConvolutionMathType": [P, I],
            "cudnnSetConvolutionGroupCount": [P, I],
            "cudnnGetConvolutionForwardAlgorithm_v7": three + [I, P, P],
            "cudnnConvolutionForward": [P, P, P, P, P, P, P, I, P, Z, P, P, P]}))
        lib.cudnnGetVersion.restype = Z
        self.version, self.handle = str(lib.cudnnGetVersion()), P()
        c.cudnnCreate(ctypes.byref(self.handle))
        c.cudnnSetStream(self.handle, driver.stream)
        self.x, self.w, self.y, self.conv = P(), P(), P(), P()
        for at in (self.x, self.y):
            c.cudnnCreateTensorDescriptor(ctypes.byref(at))
        c.cudnnCreateFilterDescriptor(ctypes.byref(self.w))
        c.cudnnCreateConvolutionDescriptor(ctypes.byref(self.conv))

    def runs(self, layer, mode, at, space):
        if not isinstance(layer, Conv):
            return
        if not layer.even:
            raise Refused("the padding is uneven")
        c, of = self.c, MODES[mode]
        c.cudnnSetTensor4dDescriptor(self.x, F32, of, layer.n, layer.c, layer.h, layer.w)
        c.cudnnSetFilter4dDescriptor(self.w, of, F32, layer.k, layer.c // layer.groups, layer.r, layer.s)
        c.cudnnSetTensor4dDescriptor(self.y, F32, of, *layer.shape)
        c.cudnnSetConvolution2dDescriptor(self.conv, *layer.pad, *layer.stride, *layer.dil, 1, F32)  # cross-correlation
        c.cudnnSetConvolutionGroupCount(self.conv, layer.groups)
        # CUDNN_DEFAULT_MATH: f32 may be rounded to TF32; CUDNN_FMA_MATH: it may not; CUDNN_TENSOR_OP_MATH
        c.cudnnSetConvolutionMathType(self.conv, {"tf32": 0, "fp32": 3, "fp16": 1}[mode])
        count, list_ = I(), (AlgoPerf * 8)()
        c.cudnnGetConvolutionForwardAlgorithm_v7(self.handle, self.x, self.w, self.conv, self.y, 8,
                                                 ctypes.byref(count), list_)
        for p in list_[:count.value]:
            if p.status or p.memory > WORKSPACE:
                continue

            def run(algo=p.algo, memory=p.memory):
                c.cudnnConvolutionForward(self.handle, ctypes.byref(ONE), self.x, at[0], self.w, at[1], self.conv, algo,
                                          space if memory else None, memory, ctypes.byref(NONE), self.y, at[2])
            yield self.ALGORITHMS[p.algo] if 0 <= p.algo < 8 else "algorithm %d" % p.algo, run


class Gemm:
    """The arguments of a product for libraries that store by columns: c transposed = b transposed times a transposed."""
    def __init__(self, p, at):
        a, b = (at[1], at[0]) if p.swapped else (at[0], at[1])
        self.ops, self.sizes = (1 if p.trans else 0, 0), (p.n, p.m, p.k)
        self.at, self.ld = (b, a, at[2]), (p.k if p.trans else p.n, p.k, p.n)
        self.step = (p.k * p.n, 0 if p.shared else p.m * p.k, p.m * p.n)
        self.batch = p.batch


class Cublas:
    MODES = {"default": 0, "pedantic": 2, "tf32": 3}  # cublasMath_t

    def __init__(self, driver):
        open_library(["libcublasLt.so.%d" % v for v in (13, 12, 11)])  # which it needs
        lib = open_library(["libcublas.so.%d" % v for v in (13, 12, 11)])
        sizes = [P, I, I, I, I, I, P]
        self.c = c = Struct(declare(lib, {
            "cublasCreate_v2": [P], "cublasGetVersion_v2": [P, P], "cublasSetStream_v2": [P, P],
            "cublasSetWorkspace_v2": [P, P, Z], "cublasSetMathMode": [P, I],
            "cublasSgemm_v2": sizes + [P, I, P, I, P, P, I],
            "cublasGemmEx": sizes + [P, I, I, P, I, I, P, P, I, I, I, I],
            "cublasSgemmStridedBatched": sizes + [P, I, L, P, I, L, P, P, I, L, I],
            "cublasGemmStridedBatchedEx": sizes + [P, I, I, L, P, I, I, L, P, P, I, I, L, I, I, I]}))
        self.handle, version = P(), I()
        c.cublasCreate_v2(ctypes.byref(self.handle))
        c.cublasGetVersion_v2(self.handle, ctypes.byref(version))
        c.cublasSetStream_v2(self.handle, driver.stream)
        self.version = str(version.value)

    def runs(self, layer, mode, at, space):
        p, of = layer.product(), MODES[mode]
        if not p:
            return
        self.c.cublasSetWorkspace_v2(self.handle, space, WORKSPACE)
        g, c, handle = Gemm(p, at), self.c, self.handle
        head = (handle, *g.ops, *g.sizes, ctypes.byref(ONE))

        def sgemm():
            if g.batch == 1:
                c.cublasSgemm_v2(*head, g.at[0], g.ld[0], g.at[1], g.ld[1], ctypes.byref(NONE), g.at[2], g.ld[2])
            else:
                c.cublasSgemmStridedBatched(*head, g.at[0], g.ld[0], g.step[0], g.at[1], g.ld[1], g.step[1],
                                            ctypes.byref(NONE), g.at[2], g.ld[2], g.step[2], g.batch)

        def gemm_ex():
            how = 77 if mode == "tf32" else 68  # CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_COMPUTE_32F; -1: CUBLAS_GEMM_DEFAULT
            if g.batch == 1:
                c.cublasGemmEx(*head, g.at[0], of, g.ld[0], g.at[1], of, g.ld[1], ctypes.byref(NONE), g.at[2], of,
                               g.ld[2], how, -1)
            else:
                c.cublasGemmStridedBatchedEx(*head, g.at[0], of, g.ld[0], g.step[0], g.at[1], of, g.ld[1], g.step[1],
                                             ctypes.byref(NONE), g.at[2], of, g.ld[2], g.step[2], g.batch, how, -1)
        for name in {"tf32": ["tf32"], "fp32": ["default", "pedantic"], "fp16": []}[mode]:
            c.cublasSetMathMode(handle, self.MODES[name])
            yield "sgemm, math mode %s" % name, sgemm
        c.cublasSetMathMode(handle, 0)
        yield "gemmEx", gemm_ex


class Heuristic(ctypes.Structure):  # cublasLtMatmulHeuristicResult_t
    _fields_ = [("algo", ctypes.c_uint64 * 8), ("memory", Z), ("state", I), ("waves", ctypes.c_float),
                ("reserved", I * 4)]


class CublasLt:
    def __init__(self, driver):
        lib = open_library(["libcublasLt.so.%d" % v for v in (13, 12, 11)])
        attribute = [P, I, P, Z]
        self.c = c = Struct(declare(lib, {
            "cublasLtCreate": [P], "cublasLtMatmulDescCreate": [P, I, I], "cublasLtMatmulDescSetAttribute": attribute,
            "cublasLtMatmulDescDestroy": [P],
            "cublasLtMatrixLayoutCreate": [P, I, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int64],
            "cublasLtMatrixLayoutSetAttribute": attribute, "cublasLtMatrixLayoutDestroy": [P],
            "cublasLtMatmulPreferenceCreate": [P], "cublasLtMatmulPreferenceSetAttribute": attribute,
            "cublasLtMatmulPreferenceDestroy": [P],
            "cublasLtMatmulAlgoGetHeuristic": [P] * 7 + [I, P, P],
            "cublasLtMatmul": [P, P, P, P, P, P, P, P, P, P, P, P, P, P, Z, P]}))
        lib.cublasLtGetVersion.restype = Z
        self.version, self.handle, self.stream = str(lib.cublasLtGetVersion()), P(), driver.stream
        c.cublasLtCreate(ctypes.byref(self.handle))

    def layout(self, of, rows, cols, ld, batch, step):
        at = P()
        self.c.cublasLtMatrixLayoutCreate(ctypes.byref(at), of, rows, cols, ld)
        count, step = ctypes.c_int32(batch), ctypes.c_int64(step)
        self.c.cublasLtMatrixLayoutSetAttribute(at, 5, ctypes.byref(count), 4)  # BATCH_COUNT
        self.c.cublasLtMatrixLayoutSetAttribute(at, 6, ctypes.byref(step), 8)  # STRIDED_BATCH_OFFSET, in elements
        return at

    def runs(self, layer, mode, at, space):
        p = layer.product()
        if not p:
            return
        g, c, desc, want = Gemm(p, at), self.c, P(), P()
        c.cublasLtMatmulDescCreate(ctypes.byref(desc), 77 if mode == "tf32" else 68, F32)
        for i in range(2):  # CUBLASLT_MATMUL_DESC_TRANSA, TRANSB
            op = ctypes.c_int32(g.ops[i])
            c.cublasLtMatmulDescSetAttribute(desc, 3 + i, ctypes.byref(op), 4)
        m, n, k = g.sizes
        shapes = ((k, m) if g.ops[0] else (m, k), (k, n), (m, n))
        a, b, d = (self.layout(MODES[mode], *shapes[i], g.ld[i], g.batch, g.step[i]) for i in range(3))
        c.cublasLtMatmulPreferenceCreate(ctypes.byref(want))
        room = ctypes.c_uint64(WORKSPACE)
        c.cublasLtMatmulPreferenceSetAttribute(want, 1, ctypes.byref(room), 8)  # MAX_WORKSPACE_BYTES
        list_, count = (Heuristic * 8)(), I()
        try:
            c.cublasLtMatmulAlgoGetHeuristic(self.handle, desc, a, b, d, d, want, 8, list_, ctypes.byref(count))
            for i, h in enumerate(list_[:count.value]):
                if h.state:
                    continue

                def run(h=h):
                    c.cublasLtMatmul(self.handle, desc, ctypes.byref(ONE), g.at[0], a, g.at[1], b, ctypes.byref(NONE),
                                     g.at[2], d, g.at[2], d, ctypes.byref(h.algo), space, h.memory, self.stream)
                yield "heuristic %d" % (i + 1), run
        finally:
            c.cublasLtMatmulDescDestroy(desc)
            c.cublasLtMatmulPreferenceDestroy(want)
            for layout in (a, b, d):
                c.cublasLtMatrixLayoutDestroy(layout)


LIBRARIES = {"cudnn": Cudnn, "cublas": Cublas, "cublaslt": CublasLt}

# ---- times ----

# Values that TF32 holds exactly, and so their sums; a prime number of them, so that rows of few layers repeat.
VALUES = array.array("f", random.Random(25).choices([-1, -.5, -.25, 0, .25, .5, 1], k=8191))


HALVES = array.array("H", struct.unpack("<8191H", struct.pack("<8191e", *VALUES)))


def values(n, shift, of):
    """VALUES, as f32 or halves, again and again, from VALUES[shift] on."""
    all_ = VALUES if of == F32 else HALVES
    first = all_[shift:] + all_[:shift]
    return (first * (n // len(first) + 1))[:n]


class Check:
    def __init__(self, layer):
        n, draw = layer.sizes[2], random.Random(layer.name)
        picked = {0, n - 1, n // 2} | {draw.randrange(n) for _ in range(SAMPLES)}
        a, b = (lambda i: VALUES[i % 8191]), (lambda i: VALUES[(i + 1000) % 8191])
        self.want = {i: layer.element(a, b, i) for i in picked}
        self.room = 1e-3 * math.sqrt(layer.depth)  # of Winograd's and Fourier's transforms

    def wrong(self, got):
        """Why the answer, f32 or halves, is not right; None: it is."""
        half = got.typecode == "H"
        if (UNSET in got) if half else math.isnan(sum(got)):
            return "elements are not written"
        for i, want in self.want.items():
            at = struct.unpack("<e", struct.pack("<H", got[i]))[0] if half else got[i]
            if not abs(at - want) <= self.room * (4 if half else 1):
                return "element %d is %g, not %g" % (i, at, want)
        return None


class Bench:
    def __init__(self, driver, report):
        self.driver, self.report, self.open = driver, report, {}
        self.space = driver.memory(WORKSPACE)
        for name, make in LIBRARIES.items():
            try:
                self.open[name] = make(driver)
                report["libraries"][name] = self.open[name].version
            except Refused as e:
                report["libraries"][name] = str(e)

    def best(self, name, layer, mode, at, check):
        """{"ms", "by"} of the library's fastest right answer, or why there is none."""
        unset = array.array("f", [math.nan]) if MODES[mode] == F32 else array.array("H", [UNSET])
        best, why, unset = None, "it computes no such layer", unset * layer.sizes[2]
        try:
            for by, run in self.open[name].runs(layer, mode, at, self.space):
                try:
                    self.driver.put(at[2], unset)
                    run()
                    wrong = check.wrong(self.driver.get(at[2], layer.sizes[2], unset.typecode))
                    if wrong:
                        why = "%s %s: %s: %s" % (name, by, layer.name, wrong)
                        self.report["wrong"].append(why)
                        continue
                    ms = self.driver.ms(run)
                    if not best or ms < best["ms"]:
                        best = {"ms": round(ms, 6), "by": by}
                except Refused as e:
                    why = str(e)
        except Refused as e:
            why = str(e)
        return best or why

    def layer(self, layer):
        at, out = [], {}
        try:
            for n in layer.sizes:
                at.append(self.driver.memory(4 * n))
            check = Check(layer)
            for mode, of in MODES.items():
                for i in range(2):
                    self.driver.put(at[i], values(layer.sizes[i], 1000 * i, of))
                row = out[mode] = {name: self.best(name, layer, mode, at, check) for name in self.open}
                timed = [name for name in row if isinstance(row[name], dict)]
                row["best"] = min(timed, key=lambda name: row[name]["ms"]) if timed else None
                if timed:
                    wins = self.report["wins"][mode]
                    wins[row["best"]] = wins.get(row["best"], 0) + 1
        finally:
            for a in at:
                self.driver.free(a)
        return out


def main(args):
    device = args[args.index("--device") + 1] if "--device" in args else "cuda:0"
    os.environ.pop("NVIDIA_TF32_OVERRIDE", None)
    report = {"libraries": {}, "layers": {}, "wins": {mode: {} for mode in MODES}, "wrong": [], "left": 0}
    try:
        bench = Bench(Driver(int(device.rsplit(":", 1)[-1])), report)
    except Refused as e:
        print(json.dumps({"skipped": str(e)}))
        return 0
    for path in [a for a in args if a.endswith(".onnx")]:
        try:
            for layer, nodes in layers_of(path):
                row = report["layers"].get(layer.name)
                if not row and time.monotonic() > END_S:
                    report["left"] += 1
                    continue
                if not row:
                    row = report["layers"][layer.name] = {"uses": 0, "nodes": {}, **bench.layer(layer)}
                row["uses"] += len(nodes)
                row["nodes"][os.path.basename(path).rsplit(".", 1)[0]] = nodes
                print(json.dumps(report), flush=True)
        except (Refused, NotImplementedError) as e:  # the next model is tried all the same
            report.setdefault("failed", []).append("%s: %s" % (os.path.basename(path), e))
        print(json.dumps(report), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
