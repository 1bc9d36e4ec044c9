# SPDX-License-Identifier: Apache-2.0
"""make bench-quantized: int8 networks (QDQ, made here by onnxruntime.quantization with min-max ranges of the test input) against
ONNX Runtime, through the Python binding of each. First every convolution and product alone on the same random integers, whose
outputs are compared; then the whole network's time, by turns in one process, without tuned kernels and, if --tune gives the length
of a box, with those that it finds."""
import argparse
import os
import subprocess
import sys
import tempfile

import bench_untuned
import nets

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
NETWORKS = ["models/yunet_n_320", "models/fastestdet_352", "nets/mobilenet_v2", "nets/resnet18"]


def options(argv):
    p = argparse.ArgumentParser(prog="make bench-quantized ARGS=", description=__doc__.split(":")[1].strip())
    p.add_argument("networks", nargs="*", default=NETWORKS, help=f"folders of the data folder (default: {' '.join(NETWORKS)})")
    p.add_argument("--activations", choices=["u8", "s8"], default="u8")
    p.add_argument("--tune", metavar="BOX", help="also time the kernels that hone tune finds in a box of this length, like 8s")
    p.add_argument("--seconds", type=float, default=5, help="of measuring for each network (default 5)")
    p.add_argument("--build", default=os.environ.get("BUILD", "build"))
    a = p.parse_args(argv)
    a.threads = 1
    return a


def quantize(model, inputs, activations, folder):
    """Writes the QDQ form of a model; returns its path."""
    import onnx
    from onnx import version_converter
    from onnxruntime import quantization as q
    from onnxruntime.quantization.shape_inference import quant_pre_process
    m = onnx.load(model)
    if m.opset_import[0].version < 13:  # scales of each filter
        m = version_converter.convert_version(m, 13)
    flat, ready, out = (os.path.join(folder, f + ".onnx") for f in ("flat", "ready", "qdq"))
    onnx.save(m, flat)
    quant_pre_process(flat, ready, skip_symbolic_shape=True)
    known = {t.name for t in m.graph.initializer}
    feed = dict(zip([i.name for i in m.graph.input if i.name not in known], inputs))

    class Reader(q.CalibrationDataReader):
        feeds = iter([feed])

        def get_next(self):
            return next(self.feeds, None)

    kind = {"u8": q.QuantType.QUInt8, "s8": q.QuantType.QInt8}[activations]
    q.quantize_static(ready, out, Reader(), quant_format=q.QuantFormat.QDQ, per_channel=True, activation_type=kind,
                      weight_type=q.QuantType.QInt8)
    return out


def products(m):
    """The bytes that each product reads and the bytes that are made of it, where it alone is between them."""
    made = {o: n for n in m.graph.node for o in n.output}
    readers = {}
    for n in m.graph.node:
        for i in n.input:
            readers.setdefault(i, []).append(n)
    for n in m.graph.node:
        source = made.get(n.input[0]) if n.op_type in ("Conv", "Gemm", "MatMul") else None
        if source is None or source.op_type != "DequantizeLinear":
            continue
        after = readers.get(n.output[0], [])
        while len(after) == 1 and after[0].op_type in ("Relu", "Clip"):
            after = readers.get(after[0].output[0], [])
        if len(after) == 1 and after[0].op_type == "QuantizeLinear":
            yield source.input[0], after[0].output[0]


def compare_layers(b, model, folder):
    """(layers, elements, those that differ, those that differ by more than 1)"""
    import onnx
    from onnx.utils import Extractor
    np, path = b.np, os.path.join(folder, "layer.onnx")
    m = onnx.shape_inference.infer_shapes(onnx.load(model))
    extractor, rng, sums = Extractor(m), np.random.default_rng(1), [0, 0, 0, 0]
    for first, last in products(m):
        onnx.save(extractor.extract_model([first], [last]), path)
        theirs = b.session(path)
        i = theirs.get_inputs()[0]
        x = rng.integers(0, 256, i.shape).astype("u1").view("u1" if "uint8" in i.type else "i1")
        mine = b.hone.load(path, threads=1, caches=[b.empty])
        off = np.abs(np.asarray(mine.run(x)[0], "i4") - theirs.run(None, {i.name: x})[0])
        sums = [a + int(v) for a, v in zip(sums, (1, off.size, (off > 0).sum(), (off > 1).sum()))]
    return sums


def tuned(b, model, cache):
    """The model with the kernels that one box finds."""
    subprocess.run([os.path.join(b.a.build, "hone"), "tune", model, "-q", "--threads", "1", "--budget", b.a.tune, "--cache", cache],
                   check=True, stdout=subprocess.DEVNULL)
    return b.hone.load(model, threads=1, caches=[cache])


def main(argv):
    a = options(argv)
    os.environ.setdefault("HONE_LIBRARY", os.path.join(os.path.abspath(a.build), "libhone.so"))
    data, failed = nets.data_folder(), False
    if not data:
        print("skip: no data folder (set HONE_DATA)")
        return 0
    b = bench_untuned.Bench(a)
    for name in a.networks:
        where = os.path.join(data, name)
        with tempfile.TemporaryDirectory() as folder:
            inputs = nets.tensors(os.path.join(where, "test_data_set_0"), "input")
            model = quantize(nets.filled(where, folder), inputs, a.activations, folder)
            layers, elements, differ, far = compare_layers(b, model, folder)
            theirs, mine = b.session(model), b.hone.load(model, threads=1, caches=[b.empty])
            feed = {i.name: x for i, x in zip(theirs.get_inputs(), inputs)}
            run = [lambda: mine.run(*inputs), lambda: theirs.run(None, feed)]
            if a.tune:
                best = tuned(b, model, os.path.join(folder, "cache"))
                run.append(lambda: best.run(*inputs))
            hone, ort, *box = bench_untuned.turns(run, a.seconds, 1)
        failed |= far > 0 or differ > elements / 1000
        print(f"{os.path.basename(name):20} {layers} layers, {elements} elements: {differ} differ by 1, {far} by more; "
              f"hone {hone * 1e3:.3f} ms  ONNX Runtime {ort * 1e3:.3f}  ratio {hone / ort:.2f}" +
              "".join(f"; tuned {t * 1e3:.3f} ms  ratio {t / ort:.2f}" for t in box), flush=True)
    if b.disturbed():
        print("disturbed: this process got less than 90 % of a processor")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
