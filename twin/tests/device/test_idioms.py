"""Correct kernels raise neither errors nor warnings, and give the same in every order."""

import numpy as np
import pytest

from twin.tests.harness import INOUT, INPUT, OUTPUT, WORKSPACE

SEEDS = range(4)


@pytest.fixture
def launch(idioms):
    def run(kernel, size, tiles=0, cores=1, seed=0, dtype=np.float32):
        x = np.random.default_rng(cores).standard_normal(4096).astype(np.float32)
        out = np.zeros(size, dtype)
        buffers = [(INPUT, x), (OUTPUT, out), (WORKSPACE, np.zeros(4096, np.float32))]
        buffers.append((INOUT, np.zeros(64, np.float32)))
        report = idioms.launch(kernel, buffers, [tiles], block_dim=cores, seed=seed)
        assert report.ok, report.error
        assert report.warnings == []
        assert report.unwritten[1] == 0
        return x, out

    return run


@pytest.mark.parametrize("tiles", [1, 2, 7])
def test_padding_filled_first(launch, tiles):
    x, y = launch("padding_filled_first", tiles * 256, tiles)
    rows = y.reshape(tiles, 256)
    assert (rows[:, :99] == x[: tiles * 99].reshape(tiles, 99) + np.float32(1)).all()
    assert (rows[:, 99:] == 0).all()


@pytest.mark.parametrize("tiles", [1, 2, 7])
def test_ping_pong(launch, tiles):
    x, y = launch("ping_pong", tiles * 256, tiles)
    assert (y == x[: tiles * 256] + np.float32(1)).all()


def test_addresses_of_a_destroyed_pipe(launch):
    x, y = launch("addresses_of_a_destroyed_pipe", 64)
    assert (y == x[:64] + np.float32(1)).all()


def test_base_before_the_memory(launch):
    x, y = launch("base_before_the_memory", 64)
    assert (y == x[:64]).all()


@pytest.mark.parametrize("cores", [2, 7])
@pytest.mark.parametrize("seed", range(8))
def test_flag_in_memory(launch, cores, seed):
    x, y = launch("flag_in_memory", 64 * (cores - 1), 0, cores, seed)
    assert (y.reshape(-1, 64) == x[:64]).all()


@pytest.mark.parametrize(
    "fault, texts",
    [
        (1, ("DataCopy(", "hazard, read after write", "PIPE_MTE3 of AIV 0")),
        (2, ("GetValue: deadlock: the value is read again and again",)),
    ],
)
@pytest.mark.parametrize("seed", range(8))
def test_flag_in_memory_faults(idioms, fault, texts, seed):
    buffers = [(INPUT, np.ones(4096, np.float32)), (OUTPUT, np.zeros(128, np.float32))]
    buffers += [(WORKSPACE, np.zeros(4096, np.float32)), (INOUT, np.zeros(64, np.float32))]
    report = idioms.launch("flag_in_memory", buffers, [fault], block_dim=3, seed=seed)
    for text in texts:
        assert text in report.error, report.error


def test_in_place(launch):
    x, y = launch("in_place", 256)
    wide = np.maximum(x[:256], np.float32(1)) * np.float32(2) - x[:256]
    assert (y == wide.astype(np.float16)).all()


def test_largest_of_rows(launch):
    x, y = launch("largest_of_rows", 16)
    rows = x[:256].reshape(4, 64).max(1)
    assert y.tolist() == [*rows, 0, 0, 0, 0, rows.max(), 0, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("cores", [1, 8, 48])
def test_pieces_side_by_side(launch, cores, seed):
    _, y = launch("pieces_side_by_side", 5 * cores, cores=cores, seed=seed)
    assert (y == np.repeat(np.arange(cores) + 1, 5)).all()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("cores", [1, 5, 48])
def test_zero_add_read(launch, cores, seed):
    _, y = launch("zero_add_read", 64 * cores, cores=cores, seed=seed, dtype=np.int32)
    assert (y == cores * (cores + 1) // 2).all()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("cores", [1, 6, 24])
def test_cube_cores_exchange(launch, cores, seed):
    x, y = launch("cube_cores_exchange", 64 * cores, cores=cores, seed=seed)
    assert (y.reshape(cores, 64) == np.roll(x[: 64 * cores].reshape(cores, 64), -1, 0)).all()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("cores", [2, 5, 48])
def test_cores_without_work(launch, cores, seed):
    _, y = launch("cores_without_work", 128, cores=cores, seed=seed)
    assert (y == np.repeat([1, 2], 64)).all()
