# SPDX-License-Identifier: Apache-2.0
"""Random legal models of one operator and an activation, for bench_untuned.py: convolutions of one to three dims with odd
channels, strides, dilations, groups and paddings, transposed convolutions, pooling, products, normalisations, reductions and
data movement. Equal seeds give equal models."""
import random

import numpy as np
from onnx import TensorProto, helper, numpy_helper

ACTIVATIONS = ["", "Relu", "LeakyRelu", "Sigmoid", "Tanh", "HardSwish", "Clip", "Elu", "Silu", "Gelu", "HardSigmoid", "Softplus", "Mish"]
SIZES = {1: [16, 50, 100, 333], 2: [7, 14, 20, 33, 56, 80], 3: [4, 8, 13]}


def constant(value, name):
    return numpy_helper.from_array(np.asarray(value), name)


class Grammar:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.nodes, self.weights = [], []

    def weight(self, name, *shape):
        rng = np.random.RandomState(self.r.randrange(1 << 30))
        self.weights.append(constant((rng.randn(*shape) * 0.3).astype(np.float32), name))
        return name

    def node(self, op, inputs, outputs=("y",), **attributes):
        self.nodes.append(helper.make_node(op, list(inputs), list(outputs), **attributes))

    def some(self, *values):
        return self.r.choice(values)

    def conv(self, rank):
        c, k = self.some(1, 2, 3, 5, 7, 8, 12, 16, 17, 24, 31, 32, 48, 64, 96, 100, 128), \
            self.some(1, 3, 6, 8, 10, 16, 21, 24, 32, 40, 64, 80, 96, 128, 200)
        group = 1
        if self.r.random() < .3:
            group, k = c, c * self.some(1, 1, 1, 2)
        elif self.r.random() < .25:
            group = self.some(2, 3, 4)
            c, k = -(-c // group) * group, -(-k // group) * group
        taps = [self.some(1, 1, 2, 3, 3, 3, 4, 5, 7) for _ in range(rank)]
        stride = [self.some(1, 1, 1, 2, 2, 3) for _ in range(rank)]
        dilation = [self.some(1, 1, 1, 2, 3) for _ in range(rank)]
        size = [self.r.choice(SIZES[rank]) for _ in range(rank)]
        if self.r.random() < .5:
            taps, stride, dilation = taps[:1] * rank, stride[:1] * rank, dilation[:1] * rank
        reach = [(t - 1) * d for t, d in zip(taps, dilation)]
        before = [self.some(0, a // 2, a // 2) for a in reach]
        after = [p if self.r.random() < .8 else min(p + 1, a) for p, a in zip(before, reach)]
        for i in range(rank):
            while size[i] + before[i] + after[i] < reach[i] + 1:
                size[i] += 5
        inputs = ["x", self.weight("w", k, c // group, *taps)]
        if self.r.random() < .8:
            inputs.append(self.weight("b", k))
        self.node("Conv", inputs, kernel_shape=taps, strides=stride, dilations=dilation, pads=before + after, group=group)
        return [1, c] + size, f"Conv{rank} {c}->{k} groups {group} kernel {taps} stride {stride} dilation {dilation}"

    def conv_transpose(self):
        group = self.some(1, 1, 1, 2)
        c = self.some(1, 3, 8, 16, 21, 32, 64, 100) // group * group or group
        k = self.some(1, 3, 8, 16, 20, 32, 64) // group * group or group
        taps, stride = [self.some(2, 3, 4, 5) for _ in range(2)], [self.some(1, 2, 2, 3) for _ in range(2)]
        if self.r.random() < .6:
            taps, stride = taps[:1] * 2, stride[:1] * 2
        pads = [self.some(0, 1) if t > 2 else 0 for t in taps]
        more = [self.some(0, 0, s - 1) for s in stride]
        size = [self.some(5, 8, 16, 28) for _ in range(2)]
        self.node("ConvTranspose", ["x", self.weight("w", c, k // group, *taps), self.weight("b", k)], kernel_shape=taps, strides=stride,
                  pads=pads * 2, output_padding=more, group=group)
        return [1, c] + size, f"ConvTranspose {c}->{k} groups {group} kernel {taps} stride {stride}"

    def pool(self):
        c, size = self.some(3, 8, 16, 24, 50, 64, 100), [self.some(8, 14, 28, 55) for _ in range(2)]
        op = self.some("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool")
        if op.startswith("Global"):
            self.node(op, ["x"])
            return [1, c] + size, op
        taps, stride = [self.some(2, 3, 3, 5) for _ in range(2)], [self.some(1, 2, 2, 3) for _ in range(2)]
        more = {"count_include_pad": self.some(0, 1)} if op == "AveragePool" else {}
        self.node(op, ["x"], kernel_shape=taps, strides=stride, pads=[self.some(0, t // 2) for t in taps] * 2,
                  ceil_mode=self.some(0, 0, 1), **more)
        return [1, c] + size, f"{op} kernel {taps} stride {stride}"

    def product(self):
        m, k, n = self.some(1, 1, 2, 5, 16, 50, 128), self.some(3, 10, 33, 64, 100, 256, 512, 1000), self.some(1, 5, 10, 37, 64, 128, 500)
        kind = self.some("Gemm", "Gemm of transposed weights", "MatMul", "MatMul of two values")
        if kind.startswith("Gemm"):
            across = int(kind != "Gemm")
            self.node("Gemm", ["x", self.weight("w", *((n, k) if across else (k, n))), self.weight("b", n)], transB=across)
            return [m, k], f"{kind} {m}x{n}x{k}"
        batch = self.some(1, 2, 4, 8)
        if kind == "MatMul":
            self.node("MatMul", ["x", self.weight("w", k, n)])
            return [batch, m, k], f"{kind} {batch}x{m}x{n}x{k}"
        k = self.some(8, 16, 32, 64, 100)
        self.node("Transpose", ["x"], ["t"], perm=[0, 2, 1])
        self.node("MatMul", ["x", "t"])
        return [batch, m, k], f"{kind} {batch}x{m}x{m}x{k}"

    def norm(self):
        c, h = self.some(8, 16, 50, 64, 128), self.some(7, 16, 28)
        shape = [1, c, h, h]
        op = self.some("LayerNormalization", "InstanceNormalization", "BatchNormalization", "Softmax", "LRN", "ReduceMean", "ReduceMax")
        if op == "LayerNormalization":
            self.node(op, ["x", self.weight("s", h), self.weight("b", h)], axis=-1)
        elif op == "InstanceNormalization":
            self.node(op, ["x", self.weight("s", c), self.weight("b", c)])
        elif op == "BatchNormalization":
            self.weights.append(constant(np.full(c, 0.7, np.float32), "v"))
            self.node(op, ["x", self.weight("s", c), self.weight("b", c), self.weight("m", c), "v"])
        elif op == "Softmax":
            self.node(op, ["x"], axis=self.some(1, -1, 2))
        elif op == "LRN":
            self.node(op, ["x"], size=self.some(3, 5))
        else:
            self.node(op, ["x"], axes=self.some([1], [2, 3], [-1], [2], [1, 2, 3]), keepdims=self.some(0, 1))
        return shape, op

    def movement(self):
        c, h = self.some(4, 8, 16, 30, 64), self.some(7, 14, 28)
        shape = [1, c, h, h]
        op = self.some("Transpose", "Resize", "Pad", "Slice", "DepthToSpace", "Add", "Mul", "Concat", "Split")
        if op == "Transpose":
            self.node(op, ["x"], perm=self.r.sample(range(4), 4))
        elif op == "Resize":  # cubic with align_corners is left out: ONNX Runtime differs from ONNX's reference
            mode, scale = self.some("nearest", "linear"), self.some(2., 1.5, .5, 3.)
            self.weights.append(constant(np.array([1, 1, scale, scale], np.float32), "scales"))
            more = {"nearest_mode": "floor"} if mode == "nearest" else {}
            self.node(op, ["x", "", "scales"], mode=mode, coordinate_transformation_mode=self.some("half_pixel", "asymmetric"), **more)
        elif op == "Pad":
            self.weights.append(constant(np.array([0, 0, 1, 2, 0, 0, 2, 1]), "pads"))
            self.node(op, ["x", "pads"], mode=self.some("constant", "reflect", "edge"))
        elif op == "Slice":
            for name, value in (("from", [1, 0]), ("to", [h, h]), ("axes", [2, 3]), ("steps", [2, self.some(1, 2)])):
                self.weights.append(constant(np.array(value), name))
            self.node(op, ["x", "from", "to", "axes", "steps"])
        elif op == "DepthToSpace":
            shape[1] = 4 * c
            self.node(op, ["x"], blocksize=2, mode=self.some("DCR", "CRD"))
        elif op in ("Add", "Mul"):
            self.node(op, ["x", self.weight("w", *self.some([1, c, 1, 1], [h], [1, 1, h, h], [1], [c, 1, 1]))])
        elif op == "Concat":
            self.node("Relu", ["x"], ["r"])
            self.node(op, ["x", "r"], axis=self.some(1, 2))
        else:
            self.node(op, ["x"], ["p", "q"], axis=1)
            self.node("Mul", ["p", "q"])
        return shape, op

    def activation(self):
        """Adds one after y; returns the name of the last value."""
        op = self.r.choice(ACTIVATIONS)
        if not op:
            return "y"
        if op == "Silu":
            self.node("Sigmoid", ["y"], ["s"])
            self.node("Mul", ["y", "s"], ["a"])
        elif op == "Mish":
            self.node("Softplus", ["y"], ["s"])
            self.node("Tanh", ["s"], ["t2"])
            self.node("Mul", ["y", "t2"], ["a"])
        elif op == "Gelu":
            for name, value in (("root", 1.41421356), ("one", 1), ("half", .5)):
                self.weights.append(constant(np.float32(value), name))
            self.node("Div", ["y", "root"], ["d"])
            self.node("Erf", ["d"], ["e"])
            self.node("Add", ["e", "one"], ["f"])
            self.node("Mul", ["y", "f"], ["g"])
            self.node("Mul", ["g", "half"], ["a"])
        elif op == "Clip":
            self.weights += [constant(np.float32(-.5), "lo"), constant(np.float32(self.some(1, 6)), "hi")]
            self.node("Clip", ["y", "lo", "hi"], ["a"])
        else:
            self.node(op, ["y"], ["a"])
        return "a"

    def next(self):
        """(model, shape of its input x, label)"""
        self.nodes, self.weights = [], []
        kinds = [lambda: self.conv(2), lambda: self.conv(1), lambda: self.conv(3), self.conv_transpose, self.pool, self.product, self.norm,
                 self.movement]
        shape, label = self.r.choices(kinds, [40, 6, 4, 10, 8, 16, 8, 8])[0]()
        before, out = len(self.nodes), self.activation()
        if out != "y":
            label += " " + self.nodes[before].op_type
        if self.r.random() < .15:
            self.node("Add", [out, out], ["sum"])
            out = "sum"
        graph = helper.make_graph(self.nodes, "random", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                                  [helper.make_tensor_value_info(out, TensorProto.FLOAT, None)], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), shape, f"{label} on {shape}"
