"""Two workers on MindSpore's device Ascend compute what one computes there."""

import pickle

import numpy as np
import pytest

from mindspore_nsa import nn
from mindspore_nsa.nn.parallel.plan import Layout
from mindspore_nsa.testing.dtypes import ULP
from model_zoo_demo import runlog
from tests.ascendc.test_target_layers import HALVES, SETTINGS, named
from tests.nn.parallel.starts import free_port

from .judge import by_type, run
from .test_layers import BY_TYPE
from .workers import CASES, PARTS, TOKENS, demo


def started(workers, folder):
    """Start workers, and return what each wrote."""
    program = ("-m", "mindspore.parallel.cluster.run", f"--worker_num={workers}")
    logs = folder / "logs"
    done = run(
        *(*program, f"--local_worker_num={workers}", "--join=True"),
        *(f"--master_port={free_port()}", f"--log_dir={logs}", "--cluster_time_out=120"),
        *(folder / "sources" / "tests" / "cann" / "workers.py", folder),
        folder=folder,
        OMP_NUM_THREADS="1",
        MS_NODE_TIMEOUT="10",
    )
    printed = [log.read_text(errors="replace")[-3000:] for log in sorted(logs.glob("worker_*"))]
    assert done.returncode == 0, "\n".join([*printed, done.stderr[-2000:]])
    return [pickle.loads((folder / f"found.{rank}").read_bytes()) for rank in range(workers)]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """(folder, what two workers wrote)."""
    folder = tmp_path_factory.mktemp("two")
    return folder, started(2, folder)


def joined(case, parts):
    """The results of all workers as those of one."""
    _, _, order, context, tensor = case
    places = Layout(TOKENS, context, order).places(np.arange(TOKENS))
    out, dx = (
        np.concatenate([parts[c * tensor][i] for c in range(context)])[places] for i in (0, 1)
    )
    for t in range(1, tensor):
        for c in range(context):
            for i in (0, 1):
                assert np.array_equal(parts[c * tensor + t][i], parts[c * tensor][i])
    # Every worker has its share of the gradients of its heads' weights.
    summed = [
        {name: sum(parts[c * tensor + t][2][name] for c in range(context)) for name in parts[t][2]}
        for t in range(tensor)
    ]
    heads = nn.WorkerGroup("", tuple(range(tensor)), 0, False)
    layer = nn.NativeSparseAttention(SETTINGS)
    return out, dx, nn.unshard_parameters(summed, layer, heads)


def compare(case, found):
    """Hold workers to one, within the roundings of the dtype."""
    dtype = case[1]
    one = named(found[HALVES.index(dtype)]["one"])
    several = named(joined(case, [each[case] for each in found]))
    assert several.keys() == one.keys()
    for name, expected in one.items():
        got = several[name]
        assert got.shape == expected.shape and expected.any()
        error = np.abs(got - expected).max() / np.abs(expected).max()
        assert error <= 2 * ULP[dtype], (case, name, error / ULP[dtype])


@pytest.mark.parametrize("case", CASES[2], ids=str)
def test_as_one_worker(two, case):
    """Outputs and every gradient, in both modes, orders and dtypes, by text and by heads."""
    compare(case, two[1])


def test_sum_of_products(two):
    """Parts of a product are summed before they are rounded: one is beyond float16."""
    for found in two[1]:
        assert found["product"].dtype == np.float32
        assert np.array_equal(found["product"], np.full((5, 3), sum(PARTS), np.float32))


def test_demo(two, tmp_path):
    """Two workers that share texts train on device Ascend as one on a CPU, but for rounding."""
    demo(tmp_path)
    ours, one = (
        [record["loss"] for record in runlog.read(folder) if "loss" in record]
        for folder in (two[0] / "demo", tmp_path)
    )
    assert len(one) == 3 and ours != one
    assert ours == pytest.approx(one, rel=2e-3)


def test_calls_that_do_not_fit(two):
    """MindSpore's error has the stand-in's text, which names both calls."""
    for found in two[1]:
        assert "HcclAllReduce(4 float32, sum)" in found["error"], found["error"]
        assert "HcclAllReduce(5 float32, sum)" in found["error"]


def test_called_by_type(two):
    """No other operators without an aclnn function than in one worker's layers.

    Texts here have neither lists that are Tensors nor padding.
    """
    for found in two[1]:
        assert by_type(found["called"]) == set(BY_TYPE) - {"Cumsum", "Range"}
