"""Kernels on several cores: same result for every interleaving, and no false alarm."""

import ctypes

import numpy as np
import pytest

from twin.tests import harness
from twin.tests.harness import INOUT, INPUT, OUTPUT, WORKSPACE

SEEDS = range(5)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("cores", [1, 2, 7, 48])
@pytest.mark.parametrize("kernel", ["sum_sync_all", "sum_mode_0", "sum_soft"])
def test_everybody_meets(cores_library, kernel, cores, seed):
    work, out = np.zeros((2, cores, 64), np.float32)
    buffers = [(WORKSPACE, work), (OUTPUT, out), (INOUT, np.zeros((48, 8), np.int32))]
    report = cores_library.launch(kernel, buffers, block_dim=cores, seed=seed)
    assert report.ok, report.error
    assert (out == cores * (cores + 1) / 2).all() and report.warnings == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("blocks", [1, 3, 24])
def test_everybody_meets_in_a_mixed_kernel(cores_library, blocks, seed):
    work, out = np.zeros((2, 2 * blocks, 64), np.float32)
    report = cores_library.launch(
        "sum_mixed", [(WORKSPACE, work), (OUTPUT, out)], block_dim=blocks, seed=seed
    )
    assert report.ok, report.error
    assert (out == blocks * (2 * blocks + 1)).all() and report.warnings == []
    assert report.type == harness.MIX_AIC_1_2 and report.cores == 3 * blocks


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("blocks", [1, 5, 24])
def test_mode_1(cores_library, blocks, seed):
    work, out = np.zeros((2, 2 * blocks, 64), np.float32)
    report = cores_library.launch(
        "exchange_mode_1", [(WORKSPACE, work), (OUTPUT, out)], block_dim=blocks, seed=seed
    )
    assert report.ok, report.error
    assert (out[:, 0] == np.arange(2 * blocks).reshape(-1, 2)[:, ::-1].reshape(-1)).all()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("blocks, rounds", [(1, 1), (1, 6), (6, 5), (24, 9)])
def test_mode_2_pipeline(cores_library, blocks, rounds, seed):
    x = np.random.default_rng(seed).random((blocks, rounds, 2, 64), np.float32)
    y = np.zeros_like(x)
    work = np.zeros((blocks, 2, 2, 64), np.float32)
    report = cores_library.launch(
        "pipeline_mode_2",
        [(INPUT, x), (WORKSPACE, work), (OUTPUT, y)],
        [rounds],
        block_dim=blocks,
        seed=seed,
    )
    assert report.ok, report.error
    assert (y == x + np.float32([[1], [2]])).all() and report.warnings == []


def bfloat16(values):
    """Bits of the nearest bfloat16, ties to even, of float32 values."""
    bits = values.view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def widened(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


@pytest.mark.parametrize("cores", [1, 4, 33])
@pytest.mark.parametrize("dtype", ["float", "half", "int32_t", "int16_t", "int8_t"])
@pytest.mark.parametrize("operation", ["add", "max", "min", "type"])
def test_atomic_stores(cores_library, operation, dtype, cores):
    numpy_type = {"float": np.float32, "half": np.float16}.get(dtype) or np.dtype(dtype[:-2])
    rng = np.random.default_rng(cores)
    # Integers of this size are exact in every order.
    limit = 3 if dtype == "int8_t" else 10
    x = rng.integers(-limit, limit + 1, (cores, 64)).astype(numpy_type)
    out = rng.integers(-limit, limit + 1, 64).astype(numpy_type)
    everything = np.concatenate([x, out[None]])
    expected = {"max": np.max, "min": np.min}.get(operation, np.sum)(everything, axis=0)
    report = cores_library.launch(
        f"atomic_{operation}_{dtype}", [(INPUT, x), (INOUT, out)], block_dim=cores, seed=3
    )
    assert report.ok, report.error
    assert (out == expected).all()
    warned = operation in ("add", "type") and dtype in ("float", "half") and cores > 1
    assert report.kinds() == (["float atomics in no fixed order"] if warned else [])


def test_atomic_addition_rounds_once_per_store(cores_library):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((1, 64)).astype(np.float32) * 3
    start = rng.standard_normal(64).astype(np.float32)
    half, out = x.astype(np.float16), start.astype(np.float16)
    expected = (half[0].astype(np.float64) + out).astype(np.float16)
    assert cores_library.launch("atomic_add_half", [(INPUT, half), (INOUT, out)]).ok
    assert (out == expected).all()
    brain, out = bfloat16(x), bfloat16(start)
    expected = bfloat16(widened(brain[0]) + widened(out))
    assert cores_library.launch("atomic_add_bfloat16_t", [(INPUT, brain), (INOUT, out)]).ok
    assert (out == expected).all()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("cores", [1, 8, 48])
def test_scalar_stores(cores_library, cores, seed):
    slots, out = np.zeros((2, cores, 16), np.int32)
    report = cores_library.launch(
        "scalar_slots", [(WORKSPACE, slots), (OUTPUT, out)], block_dim=cores, seed=seed
    )
    assert report.ok, report.error
    other = (np.arange(cores) + 1) % cores * 100
    expected = other[:, None] + np.arange(16)
    expected[:, 0] += other + 3
    assert (out == expected).all() and report.warnings == []


@pytest.mark.parametrize(
    "kernel_type, blocks, cubes, vectors",
    [
        (harness.AIV_ONLY, 5, 0, 1),
        (harness.AIC_ONLY, 4, 1, 0),
        (harness.MIX_AIV_1_0, 3, 0, 1),
        (harness.MIX_AIC_1_0, 2, 1, 0),
        (harness.MIX_AIC_1_1, 6, 1, 1),
        (harness.MIX_AIC_1_2, 7, 1, 2),
    ],
)
def test_identity(cores_library, kernel_type, blocks, cubes, vectors):
    first_vector = blocks * cubes
    total = first_vector + blocks * vectors
    out = np.zeros((total, 16), np.int32)
    report = cores_library.launch(
        "identity", [(OUTPUT, out)], [first_vector], block_dim=blocks, type=kernel_type, key=9
    )
    assert report.ok, report.error
    assert report.cores == total
    for i in range(first_vector):
        assert out[i, :8].tolist() == [i, blocks, 0, 1, 1, 1, 0, 1]
    for i in range(blocks * vectors):
        row = out[first_vector + i, :8].tolist()
        assert row == [i, blocks, i % vectors, vectors, vectors, 0, 1, 1]


def test_the_seed_decides_the_interleaving(cores_library):
    x = np.zeros(8, np.float32)
    function = cores_library.function("trace_of_last_launch")
    function.restype = ctypes.POINTER(ctypes.c_int32)
    traces = {}
    for seed in [*range(6), *range(6)]:
        report = cores_library.launch(
            "traced", [(INPUT, x)], block_dim=8, seed=seed, type=harness.AIV_ONLY
        )
        assert report.ok, report.error
        trace = function()[: 8 * 32]
        assert sorted(trace) == sorted(list(range(8)) * 32)
        # The cores take turns inside their loops.
        assert sum(a != b for a, b in zip(trace, trace[1:])) > 20
        assert traces.setdefault(seed, trace) == trace
    assert len({tuple(trace) for trace in traces.values()}) == 6


@pytest.mark.parametrize(
    "key, expected",
    [(0, harness.AIV_ONLY), (1, harness.MIX_AIC_1_1), (2, harness.AIC_ONLY)],
)
def test_kernel_type_of_a_tiling_key(cores_library, key, expected):
    assert cores_library.launch("declares_by_key", key=key).type == expected
