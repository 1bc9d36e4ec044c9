# SPDX-License-Identifier: Apache-2.0
"""The networks: from `hone zoo`, and from the optional data folder where it is there. Each is made ready in a folder:
model.onnx in one file with fixed shapes, input_N.npy, and ref_N.npy where the data folder has answers."""
import glob
import os
import shutil
import subprocess

import layers

ZOO = ["resnet18", "resnet50", "mobilenet_v2", "squeezenet1_1", "efficientnet_lite0", "vit_tiny"]
DATA = {  # name: folder
    "yolo_fastest": "nets/ncnn_yolo-fastest-1.1", "yunet": "models/yunet_n_320",
    "ultraface": "models/ultraface_rfb_320_nopost", "fastestdet": "models/fastestdet_352",
    "yolox_nano": "models/yolox_nano_416", "ppocr_det": "models/ppocrv3_det_ch", "dronet": "models/pulp_dronet_v2",
    "vittrack": "models/vittrack", "super_resolution": "models/super_resolution_core",
    "policy": "models/policy_go1"}
SHORT = ["mobilenet_v2", "squeezenet1_1", "resnet18", "vit_tiny"]


def data_folder():
    d = os.environ.get("HONE_DATA", "../shared")
    return d if os.path.exists(os.path.join(d, "models", "models.tsv")) else None


def known():
    return ZOO + (list(DATA) if data_folder() else [])


def source(name, folder, hone):
    """The model's file: written by the zoo, or in the data folder (weights that are only described are filled in)."""
    if name in ZOO:
        path = os.path.join(folder, "zoo.onnx")
        subprocess.run([hone, "-q", "zoo", name, "-o", path], check=True)
        return path
    return filled(os.path.join(data_folder(), DATA[name]), folder)


def filled(where, folder):
    """The model of a folder of the data folder; weights that are only described are filled in, in `folder`."""
    if not os.path.exists(os.path.join(where, "weights.fill")):
        return os.path.join(where, "model.onnx")
    copy = os.path.join(folder, "filled")
    fill = os.path.join(folder, "fill")
    os.makedirs(copy, exist_ok=True)
    for f in ("model.onnx", "weights.fill"):
        shutil.copyfile(os.path.join(where, f), os.path.join(copy, f))
    subprocess.run(["cc", "-O2", "-o", fill, os.path.join(data_folder(), "nets", "fill.c")], check=True)
    subprocess.run([fill, copy], check=True)
    return os.path.join(copy, "model.onnx")


def tensors(folder, kind):
    import onnx
    from onnx import numpy_helper
    out = []
    for i in range(len(glob.glob(os.path.join(folder, kind + "_*.pb")))):
        t = onnx.TensorProto()
        with open(os.path.join(folder, f"{kind}_{i}.pb"), "rb") as f:
            t.ParseFromString(f.read())
        out.append(numpy_helper.to_array(t))
    return out


def fix_shapes(model, inputs):
    for (_, v), info in zip(inputs, (i for i in model.graph.input if i.name in dict(inputs))):
        dims = info.type.tensor_type.shape.dim
        for d, n in zip(dims, v.shape):
            d.dim_value = n


def prepare(name, root, hone):
    """The job of measure and peers, without threads and scratch folder."""
    import numpy as np
    import onnx
    folder = os.path.abspath(os.path.join(root, name))
    os.makedirs(folder, exist_ok=True)
    model = onnx.load(source(name, folder, hone))
    weights = {t.name for t in model.graph.initializer}
    infos = [i for i in model.graph.input if i.name not in weights]
    for i in [i for i in model.graph.input if i.name in weights]:
        model.graph.input.remove(i)  # a weight that is an input too is no constant to ONNX Runtime
    test = os.path.join(data_folder(), DATA[name], "test_data_set_0") if name in DATA else ""
    values = tensors(test, "input")
    if len(values) != len(infos):
        rng = np.random.default_rng(1)
        values = [rng.uniform(-1, 1, [d.dim_value or 1 for d in i.type.tensor_type.shape.dim]).astype(np.float32)
                  for i in infos]
    inputs = [(i.name, v) for i, v in zip(infos, values)]
    fix_shapes(model, inputs)
    onnx.save(model, os.path.join(folder, "model.onnx"))
    with open(os.path.join(folder, "layers"), "w") as f:
        f.write("\n".join(layers.lines(model)[0]) + "\n")
    job = {"name": name, "layers": os.path.join(folder, "layers"), "model": os.path.join(folder, "model.onnx"), "folder": folder, "inputs": [], "ref": [],
           "outputs": [o.name for o in model.graph.output]}
    for i, (n, v) in enumerate(inputs):
        job["inputs"].append([n, os.path.join(folder, f"input_{i}.npy")])
        np.save(job["inputs"][-1][1], v)
    for i, v in enumerate(tensors(test, "output")):
        job["ref"].append(os.path.join(folder, f"ref_{i}.npy"))
        np.save(job["ref"][-1], v)
    return job


def prepare_int8(name, root, hone):
    """As prepare, for the network as a QDQ model, whose ranges are those of the inputs; `fp32` is the job of its floats, whose
    answers are the reference."""
    import numpy as np
    import bench_quantized
    fp32 = prepare(name, root, hone)
    folder = os.path.join(fp32["folder"], "int8")
    os.makedirs(folder, exist_ok=True)
    made = bench_quantized.quantize(fp32["model"], [np.load(path) for _, path in fp32["inputs"]], "u8", folder)
    job = {**fp32, "name": name + " int8", "folder": folder, "model": made, "fp32": fp32}
    if not job["ref"]:
        import onnxruntime
        session = onnxruntime.InferenceSession(fp32["model"], providers=["CPUExecutionProvider"])
        for i, v in enumerate(session.run(None, {n: np.load(path) for n, path in fp32["inputs"]})):
            job["ref"].append(os.path.join(folder, f"ref_{i}.npy"))
            np.save(job["ref"][-1], v)
    return job


def max_error(files, ref):
    """Over all outputs: the largest difference as a share of the reference's largest value, or of 1e-3 where that is
    larger (a sigmoid of noise is all rounding). Libraries may order outputs differently: each reference is compared
    with the nearest output of its size. None: one has no counterpart."""
    import numpy as np
    got = [np.load(f).astype(np.float64).ravel() for f in files]
    worst = 0.0
    for r in (np.load(f).astype(np.float64).ravel() for f in ref):
        near = [np.abs(g - r).max() / max(np.abs(r).max(), 1e-3) for g in got if g.size == r.size]
        if not near:
            return None
        worst = max(worst, float(min(near)))
    return worst
