"""Kernels made of all of it: a tiled product with double buffers, and AIC and AIV in turns."""

import numpy as np
import pytest

from twin.tests import harness
from twin.tests.cube.layouts import mmad


def product(a, b):
    return mmad(a, b, np.zeros((a.shape[0], b.shape[1]), np.float32), 16)


def halves(rng, *shape):
    return rng.standard_normal(shape).astype(np.float16)


@pytest.mark.parametrize("unit_flag", [0, 1])
@pytest.mark.parametrize(
    "kernel, dtype, m, n, k, blocks",
    [
        ("product_float", np.float32, 64, 64, 64, 1),
        ("product_float", np.float32, 100, 90, 150, 3),
        ("product_half", np.float16, 33, 200, 130, 2),
        ("product_half", np.float16, 1, 16, 300, 1),
    ],
)
def test_tiled_product(kernels, rng, kernel, dtype, m, n, k, blocks, unit_flag):
    a, b = halves(rng, m, k), halves(rng, k, n)
    expected = product(a, b).astype(dtype)
    for seed in range(3):
        out = np.zeros((m, n), dtype)
        report = kernels.launch(
            kernel,
            [(harness.INPUT, a), (harness.INPUT, b), (harness.OUTPUT, out)],
            (m, n, k, unit_flag),
            block_dim=blocks,
            seed=seed,
        )
        assert report.ok, report.error
        assert report.type == harness.AIC_ONLY
        assert report.kinds() == [] and sum(report.unwritten) == 0
        np.testing.assert_array_equal(out, expected)


def chain(kernels, rng, seed, blocks, rounds, fault=0):
    q, k, v = halves(rng, blocks, rounds, 32, 48), halves(rng, 48, 32), halves(rng, 32, 48)
    out = np.zeros_like(q, np.float32)
    workspace = np.zeros(blocks * 2 * 32 * 32 * 6, np.uint8)
    report = kernels.launch(
        "chain",
        [(harness.INPUT, q), (harness.INPUT, k), (harness.INPUT, v), (harness.OUTPUT, out)]
        + [(harness.WORKSPACE, workspace)],
        (rounds, fault),
        block_dim=blocks,
        seed=seed,
    )
    expected = [product((2 * product(x, k)).astype(np.float16), v) for x in q.reshape(-1, 32, 48)]
    return report, out, np.stack(expected).reshape(out.shape)


@pytest.mark.parametrize("blocks, rounds", [(1, 1), (3, 4), (7, 2)])
def test_chain(kernels, rng, blocks, rounds):
    for seed in range(4):
        report, out, expected = chain(kernels, rng, seed, blocks, rounds)
        assert report.ok, report.error
        assert report.type == harness.MIX_AIC_1_2 and report.cores == 3 * blocks
        assert report.kinds() == [] and sum(report.unwritten) == 0
        np.testing.assert_array_equal(out, expected)


def test_chain_without_its_wait(kernels, rng):
    """The AIC reads what the vector cores may not have written."""
    for seed in range(4):
        report, _, _ = chain(kernels, rng, seed, 1, 2, fault=1)
        assert not report.ok
        assert "hazard" in report.error or "uninitialised read" in report.error
        assert "AIC 0" in report.error and "matmul.cc" in report.error
