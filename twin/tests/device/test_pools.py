"""TBufPool, pools of a kernel's own, TBuf as a queue, GroupBarrier."""

import numpy as np
import pytest

from twin.tests import builds, harness
from twin.tests.harness import AIV_ONLY, INOUT, INPUT, OUTPUT, WORKSPACE

from .test_basics import HERE


@pytest.fixture(scope="module")
def launch():
    library = harness.Library(builds.shared(HERE / "pools.cc", name="device_pools"))

    def run(kernel, numbers=(), cores=1, seed=0):
        x = np.random.default_rng(3).standard_normal(1024).astype(np.float32)
        out = np.zeros(2048, np.float32)
        memory = np.zeros(2048, np.float32)
        last = memory[-memory.ctypes.data % 512 // 4 :][:1536]
        buffers = [
            (INPUT, x),
            (OUTPUT, out),
            (WORKSPACE, np.zeros(1024, np.float32)),
            (INOUT, last),
        ]
        report = library.launch(kernel, buffers, numbers, block_dim=cores, seed=seed, type=AIV_ONLY)
        return report, x, out

    return run


def test_pools(launch):
    report, x, out = launch("pools", [0])
    assert report.ok and report.warnings == [], (report.error, report.warnings)
    tiles = x[:256].reshape(4, 64) + np.float32([[1], [2], [3], [4]])
    assert (out[:256].reshape(4, 64) == tiles).all() and out[256] == 64


POOL_FAULTS = {
    1: "AllocTensor: bytes [0, 256) of UB are also of another TBufPool, at work since",
    2: "bytes [512, 1024) are asked for, the TBufPool has [0, 768)",
    3: "the TBufPool has room for 1 buffers (bufIDSize)",
    4: "the TBufPool has no memory: InitBufPool first",
    5: "the TBufPool has no memory: InitBufPool first, and again after Reset",
    6: "len is 1024 bytes, shareBuf has 768",
    7: "len is 768 bytes, 512 are left of the TBufPool",
}


@pytest.mark.parametrize("fault", POOL_FAULTS)
def test_pool_faults(launch, fault):
    assert POOL_FAULTS[fault] in launch("pools", [fault])[0].error


def test_a_pool_of_its_own(launch):
    for gap in (0, 64):
        report, x, out = launch("own_pool", [gap])
        assert report.ok and report.warnings == [], (report.error, report.warnings)
        assert (out[:128] == x[:128] + np.repeat(np.float32([1, 2]), 64)).all()
        assert out[128:130].tolist() == [256 + gap, 64 + 4]
    assert "the TBufPool has [0, 2048)" in launch("own_pool", [1024])[0].error


def test_buf_as_queue(launch):
    report, x, out = launch("buf_as_queue", [0])
    assert report.ok and report.warnings == [], (report.error, report.warnings)
    assert (out[:64] == x[:64] + np.float32(1)).all()
    # EnQue and DeQue of a TBuf wait for nothing.
    assert "SetFlag/WaitFlag<HardEvent::MTE2_V>" in launch("buf_as_queue", [1])[0].error


@pytest.mark.parametrize("seed", range(6))
def test_group_barrier(launch, seed):
    report, x, out = launch("group", [3, 0], 5, seed)
    assert report.ok, report.error
    rounds = np.float32([[0], [1], [2]])
    for core in range(3):
        row = x[64 * (core % 2) :][:64]
        assert (out[192 * core :][:192].reshape(3, 64) == row + rounds).all()
    assert (out[2040 - 16 * np.arange(5)] == 512 * 3).all()


GROUP_FAULTS = {
    3: "deadlock",
    4: "arriveIndex is 2, expected 0 to 1",
    5: "waitSizeIn is 6, expected 1 to 5",
    6: "the last 1600 bytes of UB",
}


@pytest.mark.parametrize("seed", range(3))
def test_group_barrier_faults(launch, seed):
    for fault in (1, 2):
        error = launch("group", [1, fault], 5, seed)[0].error
        assert "hazard" in error or "uninitialised read" in error, fault
    for fault, text in GROUP_FAULTS.items():
        assert text in launch("group", [2, fault], 5, seed)[0].error, fault


ILLEGAL = {
    "TBufPool<TPosition::A2> p;": "a TBufPool is in UB or L1",
    "TBufPool<TPosition::VECIN, 17> p;": "bufIDSize is at most 16",
    "TPipe p; TBuf<> b; p.InitBuffer(b, 2, 32);": "is for a TQue",
    "TPipe p; TBuf<> b; p.InitBufPool(b, 32);": "isTbufPool",
    "GroupBarrier<PipeMode::SCALAR_MODE> b(nullptr, 1, 1);": "MTE3_MODE only",
}


@pytest.mark.parametrize("statement", ILLEGAL)
def test_illegal(statement):
    text = f'#include "kernel_operator.h"\nusing namespace AscendC;\nvoid k() {{ {statement} }}'
    assert ILLEGAL[statement] in builds.refused(text)
