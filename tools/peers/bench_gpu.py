# SPDX-License-Identifier: Apache-2.0
"""Networks of `hone zoo` by PyTorch on a CUDA GPU: python3 bench_gpu.py MODEL.onnx... Prints a JSON object, and again
after each step, so that the last line has all that was done before the time was over: of each
network the time eager, as a CUDA graph, and compiled (torch.compile), with TF32 off and on, and in fp16; of each different
convolution and matrix product the time of what PyTorch picks, inside a CUDA graph, so that no launch counts (gpu_libs.py
times the libraries). Needs
PyTorch alone: models are read here. What fails is said in the place of its time. --cpu: to try it without a GPU."""
import json
import math
import struct
import sys
import time

MODES = ("fp32", "tf32", "fp16")
END_S = time.monotonic() + 80  # tools/bench/gpu.sh gives 85 s


# ---- ONNX, as far as the zoo uses it: fields of protocol buffers ----

def varint(b, at):
    value = shift = 0
    while True:
        value |= (b[at] & 127) << shift
        shift += 7
        at += 1
        if b[at - 1] < 128:
            return value, at


def fields(b):
    """(number, value) of each field: an integer, or bytes."""
    at = 0
    while at < len(b):
        tag, at = varint(b, at)
        kind = tag & 7
        if kind == 0:
            value, at = varint(b, at)
        else:
            size = 8 if kind == 1 else 4
            if kind == 2:
                size, at = varint(b, at)
            value, at = b[at:at + size], at + size
        yield tag >> 3, value


def signed(v):
    return v - (1 << 64) if v >> 63 else v


def integers(v):
    """A repeated integer, packed or not."""
    if isinstance(v, int):
        return [signed(v)]
    out, at = [], 0
    while at < len(v):
        n, at = varint(v, at)
        out.append(signed(n))
    return out


def tensor(b, floats=True):
    """(name, dims, type, values as a flat list; not floats: without those of f32)"""
    name, dims, kind, raw, values = "", [], 1, None, []
    for f, v in fields(b):
        if f == 1:
            dims += integers(v)
        elif f == 2:
            kind = v
        elif f == 4:
            values += struct.unpack("<%df" % (len(v) // 4), v)
        elif f in (5, 7):
            values += integers(v)
        elif f == 8:
            name = v.decode()
        elif f == 9:
            raw = bytes(v)
    if raw is not None and (floats or kind != 1):
        code, size = {1: ("f", 4), 6: ("i", 4), 7: ("q", 8)}[kind]
        values = list(struct.unpack("<%d%s" % (len(raw) // size, code), raw))
    return name, dims, kind, values


def attribute(b):
    name, value, ints, floats = "", None, None, None
    for f, v in fields(b):
        if f == 1:
            name = v.decode()
        elif f == 2:
            value = struct.unpack("<f", v)[0]
        elif f == 3:
            value = signed(v)
        elif f == 4:
            value = v.decode(errors="replace")
        elif f == 5:
            value = tensor(v)
        elif f == 7:
            floats = (floats or []) + list(struct.unpack("<%df" % (len(v) // 4), v))
        elif f == 8:
            ints = (ints or []) + integers(v)
    return name, ints if ints is not None else floats if floats is not None else value


def node(b):
    n = {"in": [], "out": [], "name": "", "op": "", "a": {}}
    for f, v in fields(b):
        if f == 1:
            n["in"].append(v.decode())
        elif f == 2:
            n["out"].append(v.decode())
        elif f == 3:
            n["name"] = v.decode()
        elif f == 4:
            n["op"] = v.decode()
        elif f == 5:
            name, value = attribute(v)
            n["a"][name] = value
    return n


def inner(b, *path):
    """The bytes behind a path of field numbers; None: not there."""
    for want in path:
        b = next((v for f, v in fields(b) if f == want), None)
        if b is None:
            return None
    return b


def value_info(b):
    shape = inner(b, 2, 1, 2)
    dims = [inner(v, 1) or 1 for f, v in fields(shape or b"") if f == 1]
    return bytes(inner(b, 1)).decode(), dims


def graph(path, floats=True):
    with open(path, "rb") as f:
        g = inner(f.read(), 7)
    out = {"nodes": [], "init": {}, "in": [], "out": []}
    for f, v in fields(g):
        if f == 1:
            out["nodes"].append(node(v))
        elif f == 5:
            t = tensor(v, floats)
            out["init"][t[0]] = t
        elif f == 11:
            out["in"].append(value_info(v))
        elif f == 12:
            out["out"].append(value_info(v)[0])
    out["in"] = [i for i in out["in"] if i[0] not in out["init"]]
    return out


# ---- its operators by PyTorch ----

def pads_of(a, x, window, stride):
    auto = a.get("auto_pad", "NOTSET")
    if not auto.startswith("SAME"):
        p = a.get("pads") or [0, 0, 0, 0]
        return p[1], p[3], p[0], p[2]  # left, right, top, bottom
    total = [max(0, (math.ceil(n / s) - 1) * s + k - n) for n, s, k in zip(x.shape[2:], stride, window)]
    small = [t // 2 for t in total]
    big = [t - s for t, s in zip(total, small)]
    if auto == "SAME_LOWER":
        small, big = big, small
    return small[1], big[1], small[0], big[0]


def conv(torch, x, a, w, b):
    F = torch.nn.functional
    stride, dil = a.get("strides") or [1, 1], a.get("dilations") or [1, 1]
    left, right, top, bottom = pads_of(a, x, w.shape[2:], stride)
    if left == right and top == bottom:
        return F.conv2d(x, w, b, stride, (top, left), dil, a.get("group", 1))
    return F.conv2d(F.pad(x, (left, right, top, bottom)), w, b, stride, 0, dil, a.get("group", 1))


def pool(torch, x, a, largest):
    F = torch.nn.functional
    window, stride = a["kernel_shape"], a.get("strides") or [1, 1]
    left, right, top, bottom = pads_of(a, x, window, stride)
    if left == right and top == bottom and not a.get("ceil_mode"):
        return F.max_pool2d(x, window, stride, (top, left)) if largest else \
            F.avg_pool2d(x, window, stride, (top, left), count_include_pad=bool(a.get("count_include_pad")))
    if not largest:
        raise NotImplementedError("AveragePool with uneven padding")
    return F.max_pool2d(F.pad(x, (left, right, top, bottom), value=-math.inf), window, stride,
                        ceil_mode=bool(a.get("ceil_mode")))


def reshape(x, shape):
    return x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(shape)])


def sliced(x, starts, ends, axes, steps):
    axes = axes or range(len(starts))
    for k, axis in enumerate(axes):
        index = [slice(None)] * x.dim()
        n, step = x.shape[axis], steps[k] if steps else 1
        end = min(ends[k], n)
        index[axis] = slice(starts[k], end if end >= 0 else n + end, step)
        x = x[tuple(index)]
    return x


def evaluate(torch, n, x, ints):
    """x: tensors of the inputs (None: absent); ints(i): input i, a constant, as a list of integers."""
    F, a, op = torch.nn.functional, n["a"], n["op"]
    two = {"Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": torch.div, "Pow": torch.pow,
           "MatMul": torch.matmul}
    one = {"Relu": F.relu, "Sigmoid": torch.sigmoid, "Tanh": torch.tanh, "Erf": torch.erf, "Sqrt": torch.sqrt,
           "Exp": torch.exp, "Identity": lambda v: v, "HardSwish": F.hardswish, "HardSigmoid": F.hardsigmoid,
           "Neg": torch.neg, "Reciprocal": torch.reciprocal, "Elu": lambda v: F.elu(v, a.get("alpha", 1.0))}
    if op in two:
        return two[op](x[0], x[1])
    if op in one:
        return one[op](x[0])
    if op == "Conv":
        return conv(torch, x[0], a, x[1], x[2] if len(x) > 2 else None)
    if op in ("MaxPool", "AveragePool"):
        return pool(torch, x[0], a, op == "MaxPool")
    if op == "GlobalAveragePool":
        return x[0].mean((2, 3), keepdim=True)
    if op == "Clip":
        low = x[1] if len(x) > 1 else a.get("min")
        high = x[2] if len(x) > 2 else a.get("max")
        return torch.clamp(x[0], low, high)
    if op == "BatchNormalization":
        return F.batch_norm(x[0], x[3], x[4], x[1], x[2], False, 0.0, a.get("epsilon", 1e-5))
    if op == "Gemm":
        p = x[0].t() if a.get("transA") else x[0]
        q = x[1].t() if a.get("transB") else x[1]
        y = torch.matmul(p, q) * a.get("alpha", 1.0)
        return y if len(x) < 3 or x[2] is None else y + x[2] * a.get("beta", 1.0)
    if op == "Softmax":
        return torch.softmax(x[0], a.get("axis", -1))
    if op == "LayerNormalization":
        axis = a.get("axis", -1)
        return F.layer_norm(x[0], x[0].shape[axis:], x[1], x[2] if len(x) > 2 else None, a.get("epsilon", 1e-5))
    if op == "Gelu":
        return F.gelu(x[0], approximate=a.get("approximate", "none"))
    if op == "Transpose":
        return x[0].permute(a.get("perm") or list(range(x[0].dim()))[::-1])
    if op == "Reshape":
        return reshape(x[0], ints(1))
    if op == "Flatten":
        axis = a.get("axis", 1)
        return x[0].reshape(math.prod(x[0].shape[:axis]), -1)
    if op == "Concat":
        return torch.cat([v for v in x], a["axis"])
    if op == "ReduceMean":
        axes = a.get("axes") or (ints(1) if len(x) > 1 else list(range(x[0].dim())))
        return x[0].mean(axes, keepdim=bool(a.get("keepdims", 1)))
    if op in ("Squeeze", "Unsqueeze"):
        axes = a.get("axes") or ints(1)
        y = x[0]
        for axis in sorted(axes, reverse=op == "Squeeze"):
            y = y.squeeze(axis) if op == "Squeeze" else y.unsqueeze(axis)
        return y
    if op == "Split":
        sizes = a.get("split") or (ints(1) if len(x) > 1 else None)
        return torch.split(x[0], sizes or x[0].shape[a.get("axis", 0)] // len(n["out"]), a.get("axis", 0))
    if op == "Slice":
        return sliced(x[0], ints(1), ints(2), ints(3) if len(x) > 3 else None, ints(4) if len(x) > 4 else None)
    if op == "Gather":
        axis = a.get("axis", 0)  # no tensor of indices is made: that would be a copy, which no graph captures
        y = torch.cat([x[0].narrow(axis, i % x[0].shape[axis], 1) for i in ints(1)], axis)
        return y if x[1].dim() else y.squeeze(axis)
    if op == "Dropout":
        return x[0]
    raise NotImplementedError(op)


def make_module(torch, g, device):
    kinds = {1: torch.float32, 6: torch.int32, 7: torch.int64}

    def filled(t):
        return torch.tensor(t[3], dtype=kinds[t[2]]).reshape(t[1]).to(device)

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.plain = {name: t[3] for name, t in g["init"].items() if t[2] != 1}
            self.at = {}
            for n in g["nodes"]:
                if n["op"] == "Constant":
                    g["init"][n["out"][0]] = n["a"]["value"]
                    self.plain[n["out"][0]] = n["a"]["value"][3]
            for i, (name, t) in enumerate(g["init"].items()):
                self.register_buffer("t%d" % i, filled(t))
                self.at[name] = "t%d" % i
            self.layers = None  # a list: notes (node, inputs) of convolutions and matrix products

        def forward(self, *given):
            v = {name: getattr(self, at) for name, at in self.at.items()}
            v.update({name: x for (name, _), x in zip(g["in"], given)})
            for n in g["nodes"]:
                if n["op"] == "Constant":
                    continue
                x = [v[i] if i else None for i in n["in"]]
                if self.layers is not None and n["op"] in ("Conv", "Gemm", "MatMul"):
                    self.layers.append((n, x))
                y = evaluate(torch, n, x, lambda i: [int(k) for k in self.plain[n["in"][i]]])
                for name, part in zip(n["out"], y if isinstance(y, (tuple, list)) else [y]):
                    v[name] = part
            return [v[name] for name in g["out"]]

    return Network().eval()


# ---- times ----

class Timer:
    def __init__(self, torch, device):
        self.torch, self.device = torch, device

    def wait(self):
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def ms(self, run, seconds):
        """The median of runs, each waited for."""
        times, end_s = [], min(time.monotonic() + seconds, END_S)
        for _ in range(3):
            run()
        self.wait()
        while len(times) < 5 or (time.monotonic() < end_s and len(times) < 500):
            start_s = time.perf_counter()
            run()
            self.wait()
            times.append(time.perf_counter() - start_s)
        return round(sorted(times)[len(times) // 2] * 1e3, 5)

    def graph(self, run, times=1):
        """A replay of `times` runs."""
        torch = self.torch
        if self.device != "cuda":
            return run
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                run()
        torch.cuda.current_stream().wait_stream(side)
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g):
            for _ in range(times):
                run()
        return g.replay


def tried(f):
    try:
        if time.monotonic() > END_S:
            return "no time left"
        return f()
    except Exception as e:  # whatever a library does, the others are timed
        return "%s: %s" % (type(e).__name__, str(e)[:200])


def layer_name(n, x):
    sizes = " ".join("x".join(str(d) for d in t.shape) for t in x[:2])
    a = n["a"]
    return "%s %s stride %s group %s" % (n["op"], sizes, a.get("strides", [1])[0], a.get("group", 1)) \
        if n["op"] == "Conv" else "%s %s" % (n["op"], sizes)


def time_layers(torch, timer, layers):
    out = {}
    for n, x in layers:
        name = layer_name(n, x)
        if name in out or time.monotonic() > END_S - 40:
            continue
        run = timer.graph(lambda: evaluate(torch, n, x, None), 20)
        out[name] = tried(lambda: round(timer.ms(run, .05) / (20 if timer.device == "cuda" else 1), 6))
    return out


def set_mode(torch, mode, net, given):
    """Sets the types of a network; returns its inputs in them."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = mode == "tf32"
    half = mode == "fp16"
    net.half() if half else net.float()
    return [x.half() if half else x.float() for x in given]


def time_network(torch, timer, path):
    g = graph(path)
    net = make_module(torch, g, timer.device)
    given = [torch.rand(dims, device=timer.device) for _, dims in g["in"]]
    row = {}
    for mode in MODES:
        given = set_mode(torch, mode, net, given)
        at = row[mode] = {}
        net.layers = []
        net(*given)
        layers, net.layers = net.layers, None
        at["eager_ms"] = tried(lambda: timer.ms(lambda: net(*given), 1))
        at["graph_ms"] = tried(lambda: timer.ms(timer.graph(lambda: net(*given)), 1))
        at["layers_ms"] = tried(lambda: time_layers(torch, timer, layers))
    return row, net, given


def main():
    try:
        import torch
    except ImportError as e:
        print(json.dumps({"skipped": "no PyTorch: %s" % e}))
        return 0
    device = "cpu" if "--cpu" in sys.argv else "cuda"
    if device == "cuda" and not torch.cuda.is_available():
        print(json.dumps({"skipped": "PyTorch %s finds no CUDA GPU" % torch.__version__}))
        return 0
    torch.backends.cudnn.benchmark = True  # the best of its algorithms
    timer, report, nets = Timer(torch, device), {"torch": torch.__version__, "networks": {}}, []
    report["cudnn"] = torch.backends.cudnn.version()
    with torch.inference_mode():
        for path in [a for a in sys.argv[1:] if not a.startswith("-")]:
            name = path.rsplit("/", 1)[-1].rsplit(".", 1)[0]
            made = tried(lambda: time_network(torch, timer, path))
            report["networks"][name] = made if isinstance(made, str) else made[0]
            if not isinstance(made, str):
                nets.append((name, made[1], made[2]))
            print(json.dumps(report), flush=True)
        for mode in MODES:  # compiling is slow, and nothing ends it, so that it comes last
            for name, net, given in nets:
                given = set_mode(torch, mode, net, given)
                torch.compiler.reset() if hasattr(torch, "compiler") else None
                run = tried(lambda: torch.compile(net, mode="default" if device == "cpu"
                                                  else "reduce-overhead"))
                at = report["networks"][name][mode]
                at["compiled_ms"] = run if isinstance(run, str) else tried(
                    lambda x=given: timer.ms(lambda: run(*x), 1))
                print(json.dumps(report), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
