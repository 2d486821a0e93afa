"""The computed table of context parallel workers: its text in docs/, its balance by counting."""

import numpy as np
import pytest

from benchmarks import cluster
from mindspore_nsa.nn.parallel.plan import ORDERS, Documents, Layout, neighbours
from tests.packaging.conftest import ROOT


def test_page():
    page = (ROOT / "docs" / "parallel.md").read_text()
    assert "\n".join(cluster.table()) in page


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("workers", [2, 4, 8])
def test_balance(workers, order):
    """Keys counted query by query, over the rows that each worker has."""
    t = np.arange(1, 2**14 + 1)
    sizes = cluster.PAPER
    keys = t / sizes.stride + np.minimum(t, sizes.selected) + np.minimum(t, sizes.window)
    layout = Layout(len(t), workers, order)
    loads = np.array([keys[layout.rows(worker)].sum() for worker in range(workers)])
    assert cluster.balance(len(t), workers, order) == pytest.approx(
        loads.max() / loads.mean(), rel=1e-3
    )


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("workers", [1, 2, 4, 8])
@pytest.mark.parametrize(("window", "block"), [(8, 8), (70, 32)])
def test_rows_by_the_lists(workers, order, window, block):
    """The rows counted are those that the workers' lists add up to, also over chunks of 16 rows."""
    sizes = cluster.Sizes(window=window, block=block, stride=8)
    layout = Layout(32 * workers, workers, order)
    total = 0
    for worker in range(workers):
        for sides in ({"before": window - 1}, {"after": block - 1}):
            got = neighbours(layout, worker, **sides).received
            total += sum(got) - got[worker]
        rows = Documents(layout, worker, (layout.tokens,)).most_windows(block, 8)
        total += (workers - 1) * (layout.own + rows)
    found = cluster.rows_received(layout.tokens, workers, order, rows, sizes)
    assert found == total
    if workers > 4:
        assert cluster.rows_received(layout.tokens, workers, order, None, sizes) == total


def test_rates_are_those_of_the_page():
    page = (ROOT / "docs" / "ascend_modelled_time.md").read_text()
    for line in (
        "| 4096 | 445 us | 429 | 1531 us |",
        "| 8192 | 693.8 us |",
        "8192 tokens, it takes 2488 us",
        "| 8192 | 3330 us |",
        "| gradient, 8192 | 12968 us |",
    ):
        assert line in page
    times = [x for _, _, *times in cluster.MODELLED.values() for x in times]
    assert times == [693.8, 2488, 3330, 12968, 445, 1531]


def test_time_of_the_modelled_sizes():
    """The page's times of the branches, with the paper's sizes, add up to it."""
    one = cluster.seconds(8192, 1) * 1e6
    flash = 445 * 64 * 320 / (16 * 256) * float(cluster.keys(8192)["window"]) / (4096**2 / 2)
    assert one == pytest.approx(693.8 + 3330 + flash)
    assert cluster.seconds(8192, 4) == pytest.approx(one * 1e-6 / 4)
