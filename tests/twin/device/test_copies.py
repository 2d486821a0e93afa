"""DMA against statements of its documented semantics in NumPy."""

import numpy as np
import pytest

from tests.twin.harness import INPUT, OUTPUT

DTYPES = {"float": np.float32, "half": np.float16, "int8": np.int8, "int64": np.int64}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cores, tile, tiles", [(1, 64, 3), (7, 128, 31), (48, 1024, 100)])
def test_through_a_queue(copies, dtype, cores, tile, tiles):
    x = (np.arange(tile * tiles) % 2039).astype(DTYPES[dtype])
    y = np.zeros_like(x)
    report = copies.launch(
        f"through_{dtype}", [(INPUT, x), (OUTPUT, y)], [tile, tiles], block_dim=cores, seed=cores
    )
    assert report.ok, report.error
    assert (y == x).all()
    assert report.unwritten == [0, 0] and report.warnings == []
    assert report.pipe("MTE2")["instructions"] == tiles
    assert report.pipe("MTE2")["gm_read"] == report.pipe("MTE3")["gm_written"] == x.nbytes
