"""The computed table of context parallel workers: its text in docs/, its balance by counting."""

import numpy as np
import pytest

from benchmarks import cluster
from mindspore_nsa.nn.parallel.plan import ORDERS, Layout
from tests.packaging.conftest import ROOT


def test_page():
    page = (ROOT / "docs" / "parallel.md").read_text()
    assert "\n".join(cluster.table(100.0)) in page


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("workers", [2, 4, 8])
def test_balance(workers, order):
    """Keys counted query by query, over the rows that each worker has."""
    t = np.arange(1, 2**14 + 1)
    keys = t / cluster.STRIDE + np.minimum(t, cluster.SELECTED) + np.minimum(t, cluster.WINDOW)
    layout = Layout(len(t), workers, order)
    loads = np.array([keys[layout.rows(worker)].sum() for worker in range(workers)])
    assert cluster.balance(len(t), workers, order) == pytest.approx(
        loads.max() / loads.mean(), rel=1e-3
    )
