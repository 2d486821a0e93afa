"""Host side of the high-level APIs: what it tiles runs, in the least space that it says."""

import ctypes

import numpy as np
import pytest

import ascendc_twin
from twin.tests import harness
from twin.tests.harness import INPUT, OUTPUT, TILING
from twin.tests.vector.semantics import adv

from ..builds import ROOT
from . import acl
from .operators import compile_with_twin

BLOCK = 32
NUMPY = {
    "half": np.float16,
    "float": np.float32,
    "uint8": np.uint8,
    "int8": np.int8,
    "int32": np.int32,
}
FLASH, GRAD, GRAD_FRONT = 1, 2, 3
STATS = [("half", "half"), ("half", "float"), ("float", "float")]
SHAPES = [(4, 32), (7, 160), (24, 64), (8, 1024)]


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """The functions and kernels of adv_tiling.cc, on the library of the package."""
    target = tmp_path_factory.mktemp("adv_tiling") / "libadv_tiling.so"
    source = ROOT / "twin" / "tests" / "host" / "adv_tiling.cc"
    compile_with_twin("-shared", f"-I{ROOT}", source, "-o", target, *ascendc_twin.libs())
    library = harness.Library(target)
    for name in ("topk_tiling", "select_space", "basic_block"):
        library.function(name).restype = ctypes.c_bool
    library.function("shape_size").restype = ctypes.c_int64
    return library


def numbers(values):
    return np.array(values, np.int64)


def address(array):
    return ctypes.c_void_p(array.ctypes.data)


def width(dtype):
    return np.dtype(NUMPY[dtype]).itemsize


def launch(host, kernel, buffers, space, own):
    """A kernel of adv_tiling.cc with so much temporary space, and numbers of its own."""
    sizes = [array.nbytes for _, array in buffers]
    sizes += [0] * (8 - len(sizes))
    return host.launch(kernel, buffers, [*sizes, space, *own], type=harness.AIV_ONLY)


class Softmax:
    """One call of a function of the family; of tensors [m, k] with statistics of a block a row."""

    def __init__(self, host, kind, dtypes, shape, update=False, basic=False, one_per_row=False):
        self.host, (self.data, self.stat), (self.m, self.k) = host, dtypes, shape
        flags = (update, basic, one_per_row)
        self.call = numbers([kind, *shape, width(self.data), width(self.stat), *flags])
        self.update, self.one_per_row = update, one_per_row
        rng = np.random.default_rng(0)
        self.x = rng.uniform(-4, 4, shape).astype(NUMPY[self.data])
        self.y = rng.uniform(-1, 1, shape).astype(NUMPY[self.data])

    def space(self):
        least, most = ctypes.c_uint32(), ctypes.c_uint32()
        self.host.function("softmax_space")(
            address(self.call), ctypes.byref(least), ctypes.byref(most)
        )
        return least.value, most.value

    def tiling(self, space):
        """The members; both kinds of tiling data have the same bytes."""
        plain, by_macros = np.zeros(16, np.uint32), np.zeros(16, np.uint32)
        self.host.function("softmax_tiling")(
            address(self.call), ctypes.c_uint32(space), address(plain), address(by_macros)
        )
        assert (plain == by_macros).all()
        return plain

    def stats(self, dtype, values=None):
        """Statistics of all rows in the layout of the call."""
        lanes = 1 if self.one_per_row else BLOCK // width(dtype)
        values = np.zeros(self.m) if values is None else values
        return np.repeat(values.astype(NUMPY[dtype]), lanes)

    def run(self, kernel, buffers, space):
        return launch(self.host, kernel, buffers, space, self.call)


def in_rows(array, rows):
    """One value of each row; all its lanes hold it."""
    lanes = array.reshape(rows, -1)
    assert (lanes == lanes[:, :1]).all()
    return lanes[:, 0]


def close(got, expected, dtype):
    tolerance = 2e-3 if dtype == "half" else 3e-6
    np.testing.assert_allclose(got.astype(np.float64), expected, rtol=tolerance, atol=1e-6)


def in_spaces(case, launch, check, capfd):
    """Least, middle and most space give the numbers; a block less than the least is found out."""
    least, most = case.space()
    assert 0 < least <= most and least % BLOCK == 0
    for space in (least, (least + most) // 2 // BLOCK * BLOCK, most):
        tiling = case.tiling(space)
        report, outputs = launch(tiling, space)
        assert report.ok, report.error
        check(*outputs)
        rows = tiling[6]
        assert rows * tiling[12] + tiling[13] == case.m
    assert rows == case.m or case.m % 8 == 0, "all rows at once, or in basic blocks"
    assert capfd.readouterr().err == ""
    # A block less in the kernel, then already on the host.
    report, _ = launch(case.tiling(least), least - BLOCK)
    assert not report.ok and f"bytes, {least} are needed" in report.error
    tiling = case.tiling(least - BLOCK)
    text = capfd.readouterr().err
    assert f"localWorkSpaceSize must be at least {least} bytes for this shape" in text
    report, _ = launch(tiling, least)
    assert not report.ok and "the tiling has no rows in a pass" in report.error


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtypes", STATS)
def test_softmax(host, dtypes, shape, capfd):
    case = Softmax(host, 0, dtypes, shape)

    def launch(tiling, space):
        dst, total, largest = np.zeros_like(case.x), case.stats(dtypes[1]), case.stats(dtypes[1])
        outputs = [dst, total, largest]
        buffers = [(OUTPUT, a) for a in outputs] + [(INPUT, case.x), (TILING, tiling)]
        return case.run(f"softmax_{dtypes[0]}_{dtypes[1]}", buffers, space), outputs

    def check(dst, total, largest):
        expected = adv.softmax(case.x, case.k)
        close(dst, expected[0], dtypes[0])
        close(in_rows(total, case.m), expected[1], dtypes[1])
        close(in_rows(largest, case.m), expected[2], dtypes[1])

    in_spaces(case, launch, check, capfd)


FORMS = {
    "first": {},
    "update": {"update": True},
    "basic": {"update": True, "basic": True},
    "one a row": {"update": True, "one_per_row": True},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(16, 64), (24, 128), (8, 1024)])
@pytest.mark.parametrize("dtypes", STATS)
def test_flash(host, dtypes, shape, form, capfd):
    case = Softmax(host, FLASH, dtypes, shape, **FORMS[form])
    rng = np.random.default_rng(1)
    before = (rng.uniform(1, 9, case.m), rng.uniform(-4, 4, case.m))
    before = tuple(a.astype(NUMPY[dtypes[1]]) for a in before)

    def launch(tiling, space):
        outputs = [np.zeros_like(case.x), case.stats(dtypes[1]), case.stats(dtypes[1])]
        buffers = [(OUTPUT, a) for a in outputs] + [(INPUT, case.x), (TILING, tiling)]
        outputs.append(case.stats(dtypes[0]))
        buffers += [(OUTPUT, outputs[-1])]
        buffers += [(INPUT, case.stats(dtypes[1], a)) for a in before]
        return case.run(f"flash_{dtypes[0]}_{dtypes[1]}", buffers, space), outputs

    def check(dst, total, largest, correction):
        expected = adv.flash(case.x, case.k, before if case.update else None)
        close(dst, expected[0], dtypes[0])
        close(in_rows(total, case.m), expected[1], dtypes[1])
        close(in_rows(largest, case.m), expected[2], dtypes[1])
        if case.update:
            close(in_rows(correction, case.m), expected[3], dtypes[0])

    in_spaces(case, launch, check, capfd)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["half", "float"])
def test_grad_front(host, dtype, shape, capfd):
    case = Softmax(host, GRAD_FRONT, (dtype, dtype), shape)

    def launch(tiling, space):
        dst = case.stats(dtype)
        buffers = [(OUTPUT, dst), (INPUT, case.y), (INPUT, dst), (INPUT, case.x), (TILING, tiling)]
        return case.run(f"grad_front_{dtype}", buffers, space), [dst]

    def check(dst):
        expected = adv.grad_front(case.y, case.x, case.k)
        tolerance = 2e-2 if dtype == "half" else 1e-4
        np.testing.assert_allclose(in_rows(dst, case.m), expected, rtol=2e-3, atol=tolerance)

    in_spaces(case, launch, check, capfd)


def test_grad_alone_takes_more(host):
    """Without isFront a row takes as much or more."""
    for dtype in ("half", "float"):
        whole = Softmax(host, GRAD, (dtype, dtype), (8, 64)).space()
        front = Softmax(host, GRAD_FRONT, (dtype, dtype), (8, 64)).space()
        assert whole[0] >= front[0] and whole[1] == 8 * whole[0]


def test_basic_block(host):
    """The page allows k a multiple of 64 from 256 bytes to 2048, and m a multiple of 8."""
    for m, k, data, expected in (
        *((8, 64, 4, True), (8, 64, 2, False), (8, 128, 2, True), (16, 1984, 2, True)),
        *((8, 2048, 4, False), (8, 96, 4, False), (12, 64, 4, False)),
    ):
        found = host.function("basic_block")(
            ctypes.c_int64(m), ctypes.c_int64(k), ctypes.c_uint32(data)
        )
        assert found == expected, (m, k, data)


def test_softmax_of_nothing(host, capfd):
    """Shapes and types without sense have a reason, and no space."""
    for shape, reason in (((1, 0), "(1, 0)"), ((3, -1), "(3, -1)"), ((1 << 20, 4096), "2^31")):
        case = Softmax(host, 0, STATS[2], (1, 32))
        case.call[1:3] = shape
        assert case.space() == (0, 0)
        assert reason in capfd.readouterr().err
    case = Softmax(host, FLASH, STATS[0], (8, 64))
    case.call[4] = 3
    assert case.space() == (0, 0)
    assert "dataTypeSize2 must be 2 or 4, got 3" in capfd.readouterr().err


class Sizes:
    """Least and most bytes of temporary space."""

    def __init__(self):
        self.least, self.most = ctypes.c_uint32(), ctypes.c_uint32()
        self.pointers = ctypes.byref(self.least), ctypes.byref(self.most)


TOPK = [(32, 3, 16), (96, 2, 48), (512, 4, 32), (2048, 1, 16)]


@pytest.mark.parametrize("index", [False, True], ids=["", "index"])
@pytest.mark.parametrize("largest", [True, False], ids=["largest", "smallest"])
@pytest.mark.parametrize("small", [False, True], ids=["normal", "small"])
@pytest.mark.parametrize("dtype", ["half", "float"])
def test_topk(host, dtype, small, largest, index):
    for inner, rows, k in TOPK[:1] if small else TOPK:
        own = numbers([inner, rows, k, width(dtype), index, small, largest])
        sizes = Sizes()
        plain, by_macros = np.zeros(112, np.uint8), np.zeros(112, np.uint8)
        assert host.function("topk_tiling")(
            address(own), *sizes.pointers, address(plain), address(by_macros)
        ), acl.recent_error()
        assert (plain == by_macros).all() and plain.any()
        least = sizes.least.value
        assert 0 < least <= sizes.most.value
        rng = np.random.default_rng(inner)
        x = rng.permutation(rows * inner).reshape(rows, inner).astype(NUMPY[dtype]) / 16
        # The small form has an index for every element, the other one for every column.
        numbering = rng.permutation(rows * inner).astype(np.int32)[
            : rows * inner if small else inner
        ]
        for space in (least, sizes.most.value, least - BLOCK):
            values = np.zeros((rows, k), x.dtype)
            indices = np.zeros((rows, k), np.int32)
            buffers = [(OUTPUT, values), (OUTPUT, indices), (INPUT, x), (INPUT, x)]
            buffers += [(TILING, plain), (INPUT, numbering)]
            report = launch(host, f"topk_{dtype}", buffers, space, own)
            if space < least:
                assert not report.ok and f"{least} are needed" in report.error
                continue
            assert report.ok, report.error
            of_rows = np.broadcast_to(numbering.reshape(-1, inner), x.shape) if index else None
            expected = adv.topk(x, k, largest, of_rows)
            assert (values == expected[0]).all() and (indices == expected[1]).all()


def test_topk_refuses(host, capfd):
    for changes, reason in (
        ({0: 40}, "inner must be a multiple of 32 up to 4096, got 40"),
        ({0: 8192}, "inner must be a multiple of 32 up to 4096, got 8192"),
        ({5: 1}, "inner must be 32 for TOPK_NSMALL, got 64"),
        ({1: 0}, "outter must be positive and at most 2^20, got 0"),
        ({2: 65}, "k must be 1 to inner, 64, got 65"),
        ({3: 8}, "dataTypeSize must be 2 or 4, got 8"),
    ):
        own = numbers([64, 2, 8, 4, 0, 0, 1])
        for at, value in changes.items():
            own[at] = value
        bytes_ = np.zeros(112, np.uint8)
        arguments = (address(own), *Sizes().pointers, address(bytes_), address(bytes_))
        assert not host.function("topk_tiling")(*arguments)
        assert reason in capfd.readouterr().err


BROADCASTS = [
    (1, 0, (96,), (1,)),
    (2, 1, (40, 48), (40, 1)),
    (2, 1, (17, 24), (17, 1)),
    (2, 0, (6, 64), (1, 64)),
    (2, 0, (4, 32), (4, 32)),
]


@pytest.mark.parametrize("case", BROADCASTS, ids=str)
@pytest.mark.parametrize("dtype", ["int8", "half", "float"])
def test_broadcast(host, dtype, case):
    rank, axis, dst_shape, src_shape = case
    sizes = Sizes()
    host.function("broadcast_space")(
        ctypes.c_int64(rank),
        acl.ints(dst_shape),
        acl.ints(src_shape),
        ctypes.c_uint32(width(dtype)),
        *sizes.pointers,
    )
    least, most = sizes.least.value, sizes.most.value
    assert least <= most
    count = int(np.prod(src_shape))
    x = np.random.default_rng(0).integers(-100, 100, count).astype(NUMPY[dtype])
    own = [rank, axis, *dst_shape, *[0] * (2 - rank), *src_shape, *[0] * (2 - rank)]
    # A kernel has no tensor without bytes.
    for space in {max(least, BLOCK), max(most, BLOCK), max(least - BLOCK, BLOCK)}:
        dst = np.zeros(dst_shape, x.dtype)
        buffers = [(OUTPUT, dst), (INPUT, x), (INPUT, x), (INPUT, x)]
        report = launch(host, f"broadcast_{dtype}", buffers, space, own)
        if space < least:
            assert not report.ok and f"{least} are needed" in report.error
            continue
        assert report.ok, report.error
        assert (dst == np.broadcast_to(x.reshape(src_shape), dst_shape)).all()


def test_broadcast_refuses(host, capfd):
    for dst, src, item, reason in (
        ((4, 32), (2, 32), 4, "must be that of dstShape or 1"),
        ((4, 32), (4, 0), 4, "srcShape must have positive dimensions"),
        ((4, 32), (4, 1), 8, "typeSize must be 1, 2 or 4, got 8"),
        ((2, 4, 32), (2, 4, 1), 4, "one or two dimensions"),
    ):
        sizes = Sizes()
        arguments = ctypes.c_int64(len(dst)), acl.ints(dst), acl.ints(src), ctypes.c_uint32(item)
        host.function("broadcast_space")(*arguments, *sizes.pointers)
        assert (sizes.least.value, sizes.most.value) == (0, 0)
        assert reason in capfd.readouterr().err


@pytest.mark.parametrize("shape", [(2, 32, 32), (3, 64, 96), (40, 160, 160)], ids=str)
@pytest.mark.parametrize("reuse", [True, False], ids=["reuse", "keep"])
@pytest.mark.parametrize("scalar_first", [True, False], ids=["scalar first", "scalar second"])
@pytest.mark.parametrize("dtypes", [("half", "uint8"), ("float", "uint8"), ("float", "int32")])
def test_select(host, dtypes, scalar_first, reuse, shape):
    rows, columns, mask_columns = shape
    own = numbers([*shape, width(dtypes[0]), width(dtypes[1]), reuse, scalar_first])
    sizes = Sizes()
    assert host.function("select_space")(address(own), *sizes.pointers)
    least, most = sizes.least.value, sizes.most.value
    assert 0 < least <= most
    rng = np.random.default_rng(0)
    x = rng.integers(-100, 100, (rows, columns)).astype(NUMPY[dtypes[0]])
    mask = rng.integers(0, 2, (rows, mask_columns)).astype(NUMPY[dtypes[1]])
    for space in (least, most, least - BLOCK):
        dst = np.zeros_like(x)
        buffers = [(OUTPUT, dst), (INPUT, x), (INPUT, x), (INPUT, x), (INPUT, mask)]
        report = launch(host, f"select_{dtypes[0]}_{dtypes[1]}", buffers, space, own)
        if space < least:
            assert not report.ok and f"{least} are needed" in report.error
            continue
        assert report.ok, report.error
        assert (dst == adv.select_bytes(x, 3, mask, scalar_first)).all()


def test_select_refuses(host, capfd):
    for at, value, reason in (
        (2, 32, "at least its columns, 64, got 2 and 32"),
        (3, 8, "srcTypeSize must be 2 or 4, got 8"),
        (1, -64, "src0Shape must have positive dimensions"),
    ):
        own = numbers([2, 64, 64, 4, 1, 0, 0])
        own[at] = value
        sizes = Sizes()
        host.function("select_space")(address(own), *sizes.pointers)
        assert (sizes.least.value, sizes.most.value) == (0, 0)
        assert reason in capfd.readouterr().err


@pytest.mark.parametrize(
    "dims, count, size",
    [((2, 3, 4), 3, 24), ((), 0, 0), ((5, -1), 2, -1), ((-2,), 0, -1), ((3, -2), 0, -1)],
)
def test_shape(host, dims, count, size):
    """A dimension or their number may be unknown in ge."""
    counted = ctypes.c_int64()
    arguments = ctypes.c_int64(len(dims)), acl.ints(dims), ctypes.byref(counted)
    assert host.function("shape_size")(*arguments) == size
    assert counted.value == count
