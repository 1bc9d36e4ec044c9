# SPDX-License-Identifier: Apache-2.0
"""The Python package on the zoo's models: test_hone.py BUILD. With numpy if it is there; what needs it is skipped else."""
import array
import ast
import copy
import glob
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import threading
import warnings

build = os.path.abspath(sys.argv[1])
os.environ["HONE_LIBRARY"] = os.path.join(build, "libhone.so")
here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
sys.dont_write_bytecode = True

import hone  # noqa: E402
from hone import _model  # noqa: E402

try:
    import numpy
except ImportError:
    numpy = None

good = bad = skipped = 0


def expect(what, condition):
    global good, bad
    good += bool(condition)
    bad += not condition
    if not condition:
        print(f"python: not so: {what}")


def fails(what, kind, part, call):
    try:
        call()
    except kind as e:
        expect(f"{what}: {e}", part in str(e))
        return
    expect(f"{what} fails", False)


def skip(why):
    global skipped
    skipped += 1
    print(f"skip: {why}")


def zoo(name, folder):
    path = os.path.join(folder, name + ".onnx")
    subprocess.run([os.path.join(build, "hone"), "zoo", "-q", name, "-o", path], check=True, stdout=subprocess.DEVNULL)
    return path


def pixels(n):
    return array.array("f", [(i * 37 % 101) / 101 - 0.5 for i in range(n)])


def test_plain(path):
    model = hone.load(path, caches=[], threads=1)
    x = model.inputs[0]
    expect("input", x == ("camera", "f32", (1, 3, 66, 200), 158400))
    data = pixels(3 * 66 * 200)
    y = model(data) if numpy is None else model(numpy.asarray(data).reshape(x.shape))
    value = float(y.flat[0]) if numpy is not None else y.tolist()[0][0]
    expect("finite", abs(value) < 1e6)
    raw = model(bytes(data))
    again = model.run(camera=data)[0]
    for out in (raw, again):
        expect("the same", bytes(memoryview(out).cast("B")) == bytes(memoryview(y).cast("B")))
    info = model.info
    expect("fallback kernels", info.tuned == 0 and info.fallback + info.portable == len(model.kernels))
    expect("remedy", "hone tune " in info.remedy and info.threads == 1 and info.load_ms > 0)
    expect("kernels", all(k.origin in ("fallback", "portable") for k in model.kernels))
    expect("nothing new", model.refresh() is False)
    with open(path, "rb") as f:
        other = hone.Handle(caches=[], threads=1).load(f.read())
    expect("from bytes", bytes(memoryview(other(data)).cast("B")) == bytes(memoryview(y).cast("B")))


def test_errors(path):
    fails("no file", hone.Error, "/nonesuch", lambda: hone.load("/nonesuch", caches=[]))
    fails("shapes as text", TypeError, "shapes is a dict", lambda: hone.load(path, shapes="x=1x3"))
    fails("no option", TypeError, "no option 'cache'; there are: shapes, caches", lambda: hone.load(path, cache="/x"))
    fails("no model", hone.Error, "not ONNX", lambda: hone.load(b"12345", caches=[]))
    fails("threads", hone.Error, "1 to 64", lambda: hone.Handle(threads=99))
    fails("shape", hone.Error, "nonesuch", lambda: hone.load(path, {"nonesuch": 3}, caches=[]))
    model = hone.load(path, caches=[], threads=1)
    n = 3 * 66 * 200
    fails("no input", TypeError, "missing inputs: camera", model.run)
    fails("two inputs", TypeError, "2 inputs", lambda: model.run(1, 2))
    fails("twice", TypeError, "twice", lambda: model.run(pixels(n), camera=pixels(n)))
    fails("name", TypeError, "there are: camera", lambda: model.run(lidar=pixels(n)))
    fails("size", ValueError, "has shape", lambda: model.run(pixels(n - 1)))
    fails("dtype", TypeError, "f32", lambda: model.run(array.array("d", [0.0] * n)))
    for what in ("a", None, {}):
        fails(f"no array {what!r}", hone.InputTypeError, "'camera' takes an array of f32 and shape (1, 3, 66, 200)",
              lambda: model(what))


def test_levels(path):
    """A level by its name is the flag of that name; no other name passes."""
    for name, flag in _model._LEVELS.items():
        expect(f"flag of {name}", _model._level_flag(name, flag) == flag and _model._level_flag(name, 0) == flag)
        if name == "int8":  # no cache has a recipe, so floats do not run under this name
            for given in ({"level": "int8"}, {"int8": True}):
                fails("no recipe", hone.Error, "hone tune MODEL --level int8 --data DIR",
                      lambda: hone.load(path, caches=[], threads=1, **given))
            continue
        with hone.load(path, caches=[], threads=1, level=name) as model:
            expect(f"runs at {name}", len(model.run(pixels(3 * 66 * 200))) == 1)
    for name in ("int4", "INT8", "", 8, None.__class__, ["int8"], b"int8"):
        fails(f"level {name!r}", ValueError, "there are: exact, fp32, w16, half, half-sum, int8",
              lambda: hone.load(path, caches=[], level=name))
    fails("two levels", ValueError, "exclude each other", lambda: hone.load(path, caches=[], level="w16", half=True))
    fails("two levels", hone.InputError, "exclude each other", lambda: hone.Handle(level="fp32", exact=True))


def test_close(path):
    model = hone.load(path, caches=[], threads=1)
    data = pixels(3 * 66 * 200)
    bound = model.bind(data)
    bound()
    model.close()
    model.close()
    uses = {"call": lambda: model(data), "run": lambda: model.run(data), "bind": lambda: model.bind(data), "bound": bound,
            "refresh": model.refresh, "info": lambda: model.info, "kernels": lambda: model.kernels,
            "with": model.__enter__}
    for what, use in uses.items():
        fails(f"{what} after close", ValueError, "the model 'steering.onnx' is closed: load it again", use)
        fails(f"{what} after close", hone.InputError, "closed", use)
    expect(f"repr {model!r}", repr(model) == "<hone.Model steering.onnx: closed>")
    with hone.load(path, caches=[], threads=1) as other:
        expect("open inside", len(other.run(data)) == 1)
    fails("after with", ValueError, "closed", lambda: other(data))
    try:
        with hone.load(path, caches=[], threads=1) as third:
            raise KeyError("mine")
    except KeyError:
        fails("after an error", ValueError, "closed", lambda: third(data))


def test_close_beside_calls(path):
    """Calls that run while another thread closes the model end well; later ones say that it is closed."""
    data = pixels(3 * 66 * 200)
    want = bytes(memoryview(hone.load(path, caches=[], threads=1).run(data)[0]).cast("B"))
    for _ in range(20):
        model = hone.load(path, caches=[], threads=1)
        wrong, closed = [], []

        def calls():
            while True:
                try:
                    if bytes(memoryview(model.run(data)[0]).cast("B")) != want:
                        wrong.append(1)
                except ValueError:
                    return closed.append(1)

        threads = [threading.Thread(target=calls) for _ in range(3)]
        for t in threads:
            t.start()
        model.close()
        for t in threads:
            t.join(20)
        expect("closed beside calls", not wrong and len(closed) == 3)


def test_free_sizes(folder):
    """A model that leaves sizes free: the error shows the keyword, and the keyword as shown works."""
    def field(number, body):
        return bytes([number << 3 | 2, len(body)]) + body

    def value(name, dims, kind=1):
        dims = b"".join(field(1, bytes([8, d]) if isinstance(d, int) else field(2, d.encode())) for d in dims)
        return field(1, name.encode()) + field(2, field(1, bytes([8, kind]) + field(2, dims)))

    for name in ("x", "it's", "my input"):
        node = field(1, name.encode()) + field(2, b"y") + field(4, b"Relu")
        graph = field(1, node) + field(2, b"g") + field(11, value(name, [1, "height", 4])) + field(12, value("y", [1, "height", 4]))
        model = bytes([8, 8]) + field(7, graph) + field(8, bytes([16, 17]))
        try:
            hone.load(model, caches=[], threads=1)
            expect("free sizes are an error", False)
        except hone.InputError as e:
            shown = str(e).partition("shapes=")[2]
            expect(f"Python's keyword: {e}", shown.startswith("{") and "hone_load_options" not in str(e) and "--" not in str(e))
            given = ast.literal_eval(shown)
            expect(f"works as shown: {shown}", list(given) == [name] and
                   hone.load(model, given, caches=[], threads=1).inputs[0].shape == given[name])

    # A free batch is taken as 1; a call with another number of pictures shows the keyword, where the file leaves it free.
    def file_of(what, dims):
        node = field(1, b"x") + field(2, b"y") + field(4, b"Relu")
        graph = field(1, node) + field(2, b"g") + field(11, value("x", dims)) + field(12, value("y", dims))
        path = os.path.join(folder, what + ".onnx")
        with open(path, "wb") as f:
            f.write(bytes([8, 8]) + field(7, graph) + field(8, bytes([16, 17])))
        return path

    def rows(n):
        return memoryview(pixels(n * 4)).cast("B").cast("f", (n, 4))

    for dims, shapes in ((["N", 4], "{'N': 3}"), (["", 4], "{'x': (3, 4)}"), ([1, 4], "")):
        path = file_of("batch", dims)
        try:
            hone.load(path, caches=[], threads=1)(rows(3))
            expect("another batch is an error", False)
        except hone.InputError as e:
            hint = f"load the model with shapes={shapes}, as its file leaves that size free" if shapes else "(1, 4), not (3, 4)"
            expect(f"a batch of {dims}: {e}", str(e).endswith(hint) and "has shape (1, 4), not (3, 4)" in str(e))
        if shapes:
            y = hone.load(path, ast.literal_eval(shapes), caches=[], threads=1)(rows(3))
            expect("works as shown", memoryview(y).shape == (3, 4))
    # A token that the table does not have is the caller's mistake, not the file's.
    node = field(1, b"t") + field(1, b"ids") + field(2, b"y") + field(4, b"Gather")
    graph = field(1, node) + field(2, b"g") + field(11, value("t", [5, 2])) + field(11, value("ids", [2], 7)) + field(12, value("y", [2, 2]))
    model = hone.load(bytes([8, 8]) + field(7, graph) + field(8, bytes([16, 17])), caches=[], threads=1)
    expect("tokens", list(memoryview(model(pixels(10), array.array("q", [-5, 4]))).cast("B").cast("f"))[:2] == list(pixels(10)[:2]))
    for token in (5, -6):
        fails(f"token {token}", hone.InputError, f"index {token} is outside -5 to 4",
              lambda: model(pixels(10), array.array("q", [0, token])))
    os.truncate(path, os.path.getsize(path) - 20)
    expect("a damaged file tells no sizes", all(_model.shapes_for(p, "x", (1, 4), (3, 4)) == "" for p in (path, folder, "/nonesuch")))


def test_kinds(path, folder):
    """Exceptions are hone.Error and Python's own."""
    bad_file = os.path.join(folder, "bad.onnx")
    with open(bad_file, "wb") as f:
        f.write(b"no model at all")
    model = hone.load(path, caches=[], threads=1)
    n = 3 * 66 * 200
    cases = [
        ("no file", hone.NotFoundError, FileNotFoundError, lambda: hone.load("/nonesuch", caches=[])),
        ("a folder", hone.FolderError, IsADirectoryError, lambda: hone.load(folder, caches=[])),
        ("a folder as NotFoundError", hone.FolderError, FileNotFoundError, lambda: hone.load(pathlib.Path(folder), caches=[])),
        ("no model", hone.FormatError, ValueError, lambda: hone.load(bad_file, caches=[])),
        ("a device", hone.HostError, OSError, lambda: hone.load("/dev/null", caches=[])),
        ("threads", hone.InputError, ValueError, lambda: hone.Handle(threads=99)),
        ("two levels", hone.InputError, ValueError, lambda: hone.Handle(exact=True, level="half-sum")),
        ("size", hone.InputError, ValueError, lambda: model.run(pixels(n - 1))),
        ("dtype", hone.InputTypeError, TypeError, lambda: model.run(array.array("d", [0.0] * n))),
        ("count", hone.InputTypeError, TypeError, lambda: model.run(1, 2)),
    ]
    for what, ours, standard, call in cases:
        try:
            call()
            expect(f"{what} fails", False)
        except Exception as e:
            expect(f"{what} is {ours.__name__}: {e!r}", type(e) is ours)
            expect(f"{what} is standard", isinstance(e, standard) and isinstance(e, hone.Error) and e.status < 0)
            expect(f"{what} has one line", "\n" not in repr(e) and repr(e).startswith(f"hone.{ours.__name__}("))
            again = pickle.loads(pickle.dumps(e))
            expect(f"{what} survives a pickle", type(again) is ours and str(again) == str(e) and again.status == e.status)
    for empty in (False, True):
        try:
            path = os.path.join(folder, "empty") if empty else folder
            os.makedirs(path, exist_ok=True)
            hone.load(path, caches=[])
        except hone.FolderError as e:
            given = "give a model file or a folder that `hone compile" if empty else f"give a model file, as '{folder}/"
            expect(f"a folder: {e}", str(e).startswith(f"{path} is a folder without a compiled model: {given}"))
    for kind, standard in ((hone.OutOfMemoryError, MemoryError), (hone.TimedOutError, TimeoutError),
                           (hone.UnsupportedError, NotImplementedError), (hone.BusyError, RuntimeError)):
        e = kind(-1, "a\n" * 500)
        expect(kind.__name__, isinstance(e, standard) and isinstance(e, hone.Error) and str(e) == "a\n" * 500)
        expect(f"repr of {kind.__name__}", "\n" not in repr(e) and len(repr(e)) < 500)


def test_no_copies(path):
    handle = hone.Handle(caches=[], threads=1)
    model = handle.load(path)
    for thing in handle, model:
        for call in copy.copy, copy.deepcopy, pickle.dumps:
            fails(f"{call.__name__} of {thing!r}", TypeError, "cannot be copied or pickled", lambda: call(thing))


def test_reprs(path):
    handle = hone.Handle(caches=[], threads=1)
    model = handle.load(path)
    expect(f"handle {handle!r}", repr(handle) == "<hone.Handle: 1 thread>")
    out = model.outputs[0].name
    expect(f"model {model!r}",
           repr(model) == f"<hone.Model steering.onnx: camera f32 1x3x66x200 -> {out} f32 1x1; 1 thread>")
    expect("tensor", repr(model.inputs[0]).startswith("TensorInfo(name='camera', dtype='f32', shape=(1, 3, 66, 200)"))
    info = repr(model.info)
    expect(f"info {info}", "\n" not in info and f"{model.info.fallback} fallback" in info and len(info) < 200)
    with open(path, "rb") as f:
        expect("from bytes", "from bytes: camera" in repr(handle.load(f.read())))
    try:
        lost = hone.Model.__new__(hone.Model)
        lost.__init__(handle, "/a\nb")
    except hone.Error:
        expect(f"not loaded {lost!r}", repr(lost) == "<hone.Model a\\nb: not loaded>" or "not loaded" in repr(lost))
        expect("one line", "\n" not in repr(lost))


def test_installed(folder, path):
    """make install's script: the package finds the prefix's library without help, DESTDIR or not."""
    dest, prefix = os.path.join(folder, "dest"), "/opt/hone"
    site = "/opt/hone/lib/python3.x/site-packages"  # README.md stands in for the kernels of better processors

    def install(**more):
        env = {**os.environ, "PYTHON": sys.executable, **more}
        env.pop("HONE_LIBRARY", None)
        return subprocess.run(["sh", "tools/build/install.sh", build, dest, prefix, "0.1.0", "libhone.so.1", "README.md"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, env=env,
                              cwd=os.path.dirname(os.path.dirname(here)))

    if not os.path.isdir(os.path.join(build, "man3")):
        return skip("no manual pages: make build/man build/man3")
    out = install(PYTHON_SITE=site)
    expect(f"installs: {out.stderr}", out.returncode == 0 and dest + site in out.stdout)
    code = f"import hone; print(hone.__file__, hone._library.lib._name, hone.load({path!r}, caches=[], threads=1))"

    def load(*roots):
        return subprocess.run([sys.executable, "-B", "-c", code], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              universal_newlines=True, env={"PYTHONPATH": os.pathsep.join(roots)})

    got = load(dest + site)
    words = got.stdout.split()
    expect(f"finds its library: {got.stdout}{got.stderr}", len(words) > 2 and words[0].startswith(dest + site) and
           words[1] == dest + "/opt/hone/lib/libhone.so.1" and "steering.onnx" in got.stdout)
    expect("all files", sorted(os.listdir(dest + site + "/hone"))
           == sorted(f for f in os.listdir(os.path.join(here, "hone")) if f != "__pycache__"))
    out = install()  # where the interpreter looks, or would look
    version = "%d.%d" % sys.version_info[:2]
    expect(f"a folder of its own: {out.stdout}", out.returncode == 0 and
           os.path.exists(f"{dest}/opt/hone/lib/python{version}/site-packages/hone/__init__.py") and
           "PYTHONPATH=/opt/hone/lib/python" in out.stdout)
    expect("a relative folder is refused", install(PYTHON_SITE="lib/python").returncode != 0)
    moved = os.path.join(folder, "p", "lib", "python3", "plain", "hone")  # no site folder: above may be anyone's
    os.makedirs(moved)
    open(os.path.join(folder, "p", "lib", "libhone.so.1"), "w").close()
    for f in os.listdir(dest + site + "/hone"):
        if f.endswith(".py"):
            with open(os.path.join(dest + site, "hone", f)) as a, open(os.path.join(moved, f), "w") as b:
                b.write(a.read())
    got = subprocess.run([sys.executable, "-B", "-c", "import hone; print(hone._library._installed())"], cwd=folder,
                         stdout=subprocess.PIPE, universal_newlines=True,
                         env={"PYTHONPATH": os.path.dirname(moved), "HONE_LIBRARY": os.path.join(build, "libhone.so")})
    expect("other folders are not searched", got.stdout.strip() == "None")


def test_threads(path):
    model = hone.load(path, caches=[], threads=1)
    data = pixels(3 * 66 * 200)
    want = bytes(memoryview(model.run(data)[0]).cast("B"))
    wrong = []

    def work():
        for _ in range(20):
            if bytes(memoryview(model.run(data)[0]).cast("B")) != want:
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    expect("8 threads", not wrong)


def test_fork(path):
    """A child neither waits for the parent's threads nor uses them."""
    code = f"""
import array, os, signal, hone
data = array.array("f", [0.0] * {3 * 66 * 200})
model = hone.load({path!r}, caches=[], threads=2, pin=False)
model.run(data)
pid = os.fork()
if not pid:
    signal.alarm(60)
    try:
        model.run(data)
        os._exit(1)
    except RuntimeError as e:
        good = "os.fork" in str(e)
    del model
    hone.load({path!r}, caches=[], threads=2, pin=False).run(data)
    os._exit(0 if good else 2)
print(os.waitpid(pid, 0)[1], len(model.run(data)))
"""
    out = subprocess.run([sys.executable, "-B", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         universal_newlines=True, env={**os.environ, "PYTHONPATH": here})
    expect(f"a child loads its own: {out.stderr}", out.stdout.strip() == "0 1" and out.stderr == "")


class Borrowed:
    """DLPack and nothing else, as other frameworks' tensors."""

    def __init__(self, of):
        self.of = of

    def __dlpack__(self, **options):
        return self.of.__dlpack__()

    def __dlpack_device__(self):
        return self.of.__dlpack_device__()


def test_numpy(path):
    if numpy is None:
        return skip("no numpy")
    model = hone.load(path, caches=[], threads=1)
    x = numpy.linspace(-1, 1, 3 * 66 * 200, dtype="f4").reshape(1, 3, 66, 200)
    y = model(x)
    expect("array out", isinstance(y, numpy.ndarray) and y.dtype == numpy.float32 and y.shape == (1, 1))
    expect("strides", numpy.array_equal(model(numpy.asfortranarray(x)), y))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        expect("wider", numpy.array_equal(model(x.astype("f8")), y) and numpy.array_equal(model(x.astype("f8")), y))
    expect(f"one warning: {[str(w.message) for w in said]}", len(said) == 1 and "astype('float32')" in str(said[0].message)
           and said[0].filename == __file__)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        expect("a longer float", numpy.array_equal(model(x.astype("g")), y) and not said)  # warned already
    half = x.astype("f2")
    expect("narrower", numpy.array_equal(model(half), model(half.astype("f4"))))
    for kind in ("u1", "i8", "?"):
        fails(f"{kind} for f32", hone.InputTypeError, "x.astype('float32')", lambda: model(x.astype(kind)))
    fails("bytes of a picture", TypeError, "/ 255", lambda: model(x.astype("u1")))
    fails("ragged", ValueError, "'camera' takes", lambda: model([[1.0], [1.0, 2.0]]))
    fails("texts", TypeError, "'camera' takes", lambda: model(["a"]))
    expect("dlpack", numpy.array_equal(model(Borrowed(x)), y) and hasattr(y, "__dlpack__"))
    raw = numpy.frombuffer(b"!" + x.tobytes(), dtype="u1")[1:].view("f4").reshape(x.shape)
    expect("odd address", not raw.flags.aligned and numpy.array_equal(model(raw), y))
    expect("read only", numpy.array_equal(model(numpy.frombuffer(x.tobytes(), "f4").reshape(x.shape)), y))
    expect("big endian", numpy.array_equal(model(x.astype(">f4")), y))
    expect("backwards", numpy.array_equal(model(x[:, ::-1, :, ::-1][:, ::-1, :, ::-1]), y))
    expect("a list", numpy.array_equal(model(x.tolist()), y))
    kept, value = numpy.from_dlpack(model(x)), y.copy()
    again = model(x)
    model(x * 0)
    expect("outputs are the caller's", numpy.array_equal(kept, value) and numpy.array_equal(again, value))
    own = x.copy()
    bound = model.bind(own)
    first = bound()
    expect("bound", numpy.array_equal(first[0], y))
    own *= 0
    expect("bound to the arrays", bound()[0] is first[0] and numpy.array_equal(first[0], model(own)))
    del model
    expect("a bound function holds its model", numpy.array_equal(bound()[0], first[0]))
    model = hone.load(path, caches=[], threads=1)
    fails("bound shape", ValueError, "(1, 3, 66, 200)", lambda: model.bind(x[:, :, :60]))
    other = hone.load(path, caches=[], threads=2, pin=False)
    mine = other(x)
    del other
    expect("outputs outlive their model", numpy.allclose(mine, value, 1e-3, 1e-5))
    fails("shape", ValueError, "(1, 3, 66, 200)", lambda: model(x[:, :, :60]))
    fails("dlpack shape", ValueError, "has shape", lambda: model(Borrowed(x[:, :, :60].copy())))
    fails("dlpack order", ValueError, "row-major", lambda: model(Borrowed(numpy.asfortranarray(x))))
    fails("dlpack type", TypeError, "f32", lambda: model(Borrowed(x.astype("f8"))))
    fails("complex", TypeError, "", lambda: model(x.astype("c8")))


def test_tuned(path, folder):
    worker = os.environ.get("HONE_WORKER", os.path.join(build, "hone-worker"))
    if not os.path.exists(worker):
        return skip("no hone-worker")
    cache = os.path.join(folder, "cache")
    model = hone.load(path, caches=cache, threads=1, keep_images=True)
    data = pixels(3 * 66 * 200)
    before = memoryview(model.run(data)[0]).cast("B").cast("f")[0]
    subprocess.run(
        [os.path.join(build, "hone"), "tune", path, "-q", "--rigor", "estimate", "--threads", "1", "--cache", cache],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "HONE_WORKER": worker},
    )
    expect("refreshed", model.refresh() is True and model.info.refreshed == 1)
    expect("all from the cache", model.info.fallback == 0 and model.info.tuned + model.info.default > 3)
    info, origins = model.info, [k.origin for k in model.kernels]
    expect("counted", info[:4] == tuple(map(origins.count, ("tuned", "default", "fallback", "portable"))))
    expect("no better schedule found", 0 < info.at_default <= info.default and f" {info.default} default" in repr(info))
    after = memoryview(model.run(data)[0]).cast("B").cast("f")[0]
    expect("near", abs(after - before) <= 1e-4 + 1e-3 * abs(before))


def said_by(call):
    """What the call returns, and the texts of its DeviceWarnings; all must name this file."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        result = call()
    ours = [w for w in said if issubclass(w.category, hone.DeviceWarning)]
    expect("warnings name the caller", all(w.filename == __file__ for w in ours))
    return result, [str(w.message) for w in ours]


def test_missing_caches(path, folder):
    """A cache folder that is missing counts as empty, and is named once; the user's own needs not be there."""
    missing, other = os.path.join(folder, "missing"), os.path.join(folder, "other")
    with open(os.path.join(folder, "file"), "w"):
        pass
    cases = [(missing, ["does not exist"]), (pathlib.Path(missing), []), ([folder, other, missing], ["does not exist"]),
             ([os.path.join(folder, "file")], ["is not a folder"]), (folder, []), ([], []), (None, [])]
    for caches, parts in cases:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model = hone.load(path, caches=caches, threads=1)
        ours = [w for w in said if issubclass(w.category, hone.CacheWarning)]
        expect(f"{caches}: {[str(w.message) for w in ours]}",
               len(ours) == len(parts) and all(p in str(w.message) and w.filename == __file__ for p, w in zip(parts, ours)))
        expect("runs", model.info is not None)


def test_device_names(path):
    for name in ("gpu", "cuda", "opencl", "opencl:-1", "OPENCL:0", "", "cpu:0", "opencl:0/x"):
        fails(f"device {name!r}", ValueError, f"device '{name}': must be cpu, cpu:CLUSTER, opencl:N or cuda:N; `hone devices`",
              lambda: hone.load(path, caches=[], device=name))
        fails(f"device {name!r}", hone.InputError, "`hone devices`", lambda: hone.Handle(caches=[], device=name))
    for name in (0, b"opencl:0", "cpu\0x", ["cpu"]):
        fails(f"device {name!r}", ValueError, "give a name", lambda: hone.load(path, caches=[], device=name))


def test_device_absent(path):
    """By the option and by the environment: the processor runs the model, and one warning says why."""
    data = pixels(3 * 66 * 200)
    plain, said = said_by(lambda: hone.load(path, caches=[], threads=1))
    want = bytes(memoryview(plain.run(data)[0]).cast("B"))
    expect("the processor", not said and plain.device == "cpu" and plain.info.device == "cpu" and not plain.info.device_why
           and plain.info.on_device == 0 and "cpu" not in repr(plain) and "cpu" not in repr(plain.info))
    same, said = said_by(lambda: hone.load(path, caches=[], threads=1, device="cpu", strict_device=True))
    expect("asked for", not said and same.device == "cpu" and repr(same) == repr(plain))
    os.environ["HONE_DEVICE"] = "opencl:777"
    try:
        by_env, env_said = said_by(lambda: hone.load(path, caches=[], threads=1))
        option, said = said_by(lambda: hone.load(path, caches=[], threads=1, device="cpu"))
        expect("the option goes before", not said and option.device == "cpu")
    finally:
        del os.environ["HONE_DEVICE"]
    asked, said = said_by(lambda: hone.load(path, caches=[], threads=1, device="opencl:777"))
    for m, words in ((by_env, env_said), (asked, said)):
        expect(f"one warning: {words}", len(words) == 1 and "not opencl:777: " in words[0] and "'steering.onnx'" in words[0])
        expect(f"why {m.info.device_why!r}", m.device == "cpu" and m.info.device == "cpu" and m.info.device_why)
        for text in (repr(m), repr(m.info)):
            expect(f"repr {text}", "on cpu (" in text and "\n" not in text and len(text) < 400)
        expect("handle", "opencl:777" in repr(m._loaded.handle))
        (out, again), said = said_by(lambda m=m: (m.run(data)[0], m.bind(data)()))
        expect("runs without another warning", not said and bytes(memoryview(out).cast("B")) == want)
    _, said = said_by(asked.refresh)
    expect("nor does a refresh warn again", not said)
    fails("strictly", hone.DeviceError, "'steering.onnx' cannot run on opencl:777: ",
          lambda: hone.load(path, caches=[], threads=1, device="opencl:777", strict_device=True))
    fails("strictly", OSError, "opencl:777", lambda: hone.Handle(caches=[], device="opencl:777", strict_device=True).load(path))


class Lost:
    """The library, with a device that runs the models until it is lost in the given run."""

    def __init__(self, run):
        self.run = run
        self._real = _model.lib

    def __getattr__(self, name):
        return getattr(self._real, name)

    def hone_device(self, _model):
        return b"cpu" if self.run <= 0 else b"opencl:777"

    def hone_run_on(self, *where):
        self.run -= 1
        return self._real.hone_run_on(*where)


def test_device_lost(path):
    """Lost in a run, the first or a later one: its answer is right, and one warning says it; strictly it is an error."""
    data = pixels(3 * 66 * 200)
    real = _model.lib
    for run in (1, 3):
        for strict in (False, True):
            for how in ("run", "bind"):
                _model.lib = Lost(run)
                try:
                    model, said = said_by(lambda: hone.load(path, caches=[], threads=1, device="opencl:777",
                                                            strict_device=strict))
                    expect("there", not said and model.device == "opencl:777")
                    call = (lambda: model.run(data)) if how == "run" else model.bind(data)
                    for i in range(1, run):
                        _, said = said_by(call)
                        expect("still there", not said)
                    if strict:
                        for i in range(2):
                            fails("lost", hone.DeviceError, "cannot run on opencl:777", call)
                        expect("no run after it", _model.lib.run == 0)
                    else:
                        out, said = said_by(call)
                        expect(f"lost: {said}", len(said) == 1 and len(out) == 1 and model.device == "cpu")
                        expect("said once", not said_by(call)[1])
                finally:
                    _model.lib = real


def test_device(path, folder):
    """A real device, if there is one: kernels that come later take the model there."""
    worker = os.environ.get("HONE_WORKER", os.path.join(build, "hone-worker"))
    cache = os.path.join(folder, "there")
    os.environ.setdefault("POCL_CACHE_DIR", folder)
    os.mkdir(cache)
    data = pixels(3 * 66 * 200)
    model, said = said_by(lambda: hone.load(path, caches=cache, threads=1, device="opencl:0"))
    if "no cache has a kernel" not in model.info.device_why:
        return skip(f"no OpenCL device: {model.info.device_why}")
    expect(f"without kernels: {said}", len(said) == 1 and "hone tune --device opencl:0 makes them" in said[0])
    before = memoryview(model.run(data)[0]).cast("B").cast("f")[0]
    if not os.path.exists(worker) or subprocess.run(
            [os.path.join(build, "hone"), "tune", path, "-q", "--rigor", "estimate", "--device", "opencl:0", "--budget", "60s",
             "--cache", cache], stdout=subprocess.DEVNULL, env={**os.environ, "HONE_WORKER": worker}).returncode:
        return skip("no hone-worker, or the device makes no kernels")
    _, said = said_by(model.refresh)
    expect(f"goes there {model!r}", not said and model.device == "opencl:0" and model.info.on_device > 3)
    expect("repr", "; on opencl:0, 1 thread>" in repr(model) and " on opencl:0; " in repr(model.info))
    (out, bound), said = said_by(lambda: (model.run(data)[0], model.bind(data)()[0]))
    after = memoryview(out).cast("B").cast("f")[0]
    expect("near", not said and abs(after - before) <= 1e-4 + 1e-3 * abs(before))
    strict, said = said_by(lambda: hone.load(path, caches=cache, threads=1, device="opencl:0", strict_device=True))
    expect("strictly", not said and strict.device == "opencl:0" and len(strict.run(data)) == 1)


def test_wheel(folder):
    made = [
        subprocess.run([sys.executable, "-B", os.path.join(here, "wheel.py"), os.path.join(folder, d)], check=True,
                       stdout=subprocess.PIPE, universal_newlines=True).stdout.strip()
        for d in ("a", "b")
    ]
    expect("the same bytes each time", open(made[0], "rb").read() == open(made[1], "rb").read())
    code = "import hone, sys; print(hone.version(), hone.__file__)"
    out = subprocess.run([sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {made[0]!r}); " + code],
                         check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout
    expect("runs from the wheel", ".whl" in out and hone.version() in out)
    if subprocess.run([sys.executable, "-m", "pip", "--version"], stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL).returncode:
        return skip("no pip")
    to, apart = os.path.join(folder, "site"), os.path.join(folder, "lib")
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", to, made[0]],
                   check=True, stderr=subprocess.DEVNULL, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    os.mkdir(apart)  # a copy, as if it were installed: nothing of the build's folder is beside it
    with open(os.path.join(build, "libhone.so"), "rb") as f, open(os.path.join(apart, "libhone.so.1"), "wb") as g:
        g.write(f.read())
    code = "import hone, array; print(hone.__file__, hone.load('steering.onnx', caches=[], threads=1).info.fallback)"
    out = subprocess.run([sys.executable, "-B", "-c", code], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         universal_newlines=True, env={"PYTHONPATH": to, "LD_LIBRARY_PATH": apart}).stdout.split()
    expect("installed by pip, beside an installed library", len(out) == 2 and out[0].startswith(to) and int(out[1]) > 3)
    own = os.path.join(folder, "own")  # a wheel that brings libhone and its kernels
    kernels = glob.glob(os.path.join(build, "fallback", "*.zst"))
    files = [os.path.join(build, "libhone.so"), os.path.join(build, "libhone-device.so"), *kernels]
    wheel = subprocess.run([sys.executable, "-B", os.path.join(here, "wheel.py"), os.path.join(folder, "c"), *files],
                           check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout.strip()
    expect("the tag of this machine", wheel.endswith(f"_{os.uname().machine}.whl") and "-manylinux_2_" in wheel)
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", own, wheel],
                   check=True, stderr=subprocess.DEVNULL, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    code += "; print([line.split()[-1] for line in open('/proc/self/maps') if 'libhone.so' in line][0])"
    out = subprocess.run([sys.executable, "-B", "-c", code], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         universal_newlines=True, env={"PYTHONPATH": own}).stdout.split()
    expect("a wheel with libhone", len(out) == 3 and out[2] == os.path.join(own, "hone", "libhone.so.1") and int(out[1]) > 3
           and len(os.listdir(os.path.join(own, "hone", "hone"))) == len(kernels) + 1)


with tempfile.TemporaryDirectory() as folder:
    path = zoo("steering", folder)
    test_plain(path)
    test_errors(path)
    test_levels(path)
    test_missing_caches(path, folder)
    test_device_names(path)
    test_device_absent(path)
    test_device_lost(path)
    test_close(path)
    test_close_beside_calls(path)
    test_free_sizes(folder)
    test_kinds(path, folder)
    test_reprs(path)
    test_no_copies(path)
    test_installed(folder, path)
    test_threads(path)
    test_fork(path)
    test_numpy(path)
    test_tuned(path, folder)
    test_device(path, folder)
    test_wheel(folder)
print(f"{good} passed, {bad} failed, {skipped} skipped")
sys.exit(bad > 0)
