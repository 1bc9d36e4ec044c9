# SPDX-License-Identifier: Apache-2.0
"""The convolutions and matrix products of a model as lines for chain.c, for libraries that have kernels but read no
models: conv N C H W K R S stride_h stride_w top left bottom right dilation_h dilation_w groups OH OW
        matmul batch M N K"""


def shapes(model):
    import onnx
    g = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    out = {t.name: list(t.dims) for t in g.initializer}
    for v in list(g.value_info) + list(g.input) + list(g.output):
        dims = [d.dim_value for d in v.type.tensor_type.shape.dim]
        if all(dims):
            out.setdefault(v.name, dims)
    return out


def conv(node, x, w, y):
    import onnx
    a = {p.name: onnx.helper.get_attribute_value(p) for p in node.attribute}
    if len(x) == 3:  # one dimension: a picture of height 1
        return None
    r, s = w[2:]
    stride, dil = a.get("strides", [1, 1]), a.get("dilations", [1, 1])
    pads = list(a.get("pads", [0, 0, 0, 0]))
    auto = a.get("auto_pad", b"NOTSET").decode()
    if auto.startswith("SAME"):
        for i, (n, o, k) in enumerate(zip(x[2:], y[2:], (r, s))):
            total = max(0, (o - 1) * stride[i] + (k - 1) * dil[i] + 1 - n)
            small = total // 2
            pads[i], pads[i + 2] = (small, total - small) if auto == "SAME_UPPER" else (total - small, small)
    return ["conv", *x, w[0], r, s, *stride, *pads, *dil, a.get("group", 1), *y[2:]]


def matmul(node, a, b, y):
    batch = 1
    for d in y[:-2]:
        batch *= d
    m, n, k = (y[-2] if len(y) > 1 else 1), y[-1], a[-1]
    if node.op_type == "Gemm":
        k = [b for p in node.attribute if p.name == "transA" and p.i for b in [a[0]]] or [k]
        return ["matmul", 1, m, n, k[0]]
    if len(b) == 2:  # rows of a batch share the weights
        return ["matmul", 1, m * batch, n, k]
    return ["matmul", batch, m, n, k]


def lines(model):
    """(lines, count of nodes left out: another rank, or a shape that is not known)."""
    known, out, left = shapes(model), [], 0
    for node in model.graph.node:
        kind = {"Conv": conv, "MatMul": matmul, "Gemm": matmul}.get(node.op_type)
        if not kind and node.op_type not in ("ConvTranspose", "LSTM", "GRU"):
            continue
        names = [*node.input[:2], node.output[0]]
        row = kind(node, *(known[n] for n in names)) if kind and all(n in known for n in names) else None
        if row:
            out.append(" ".join(str(v) for v in row))
        left += row is None
    return out, left
