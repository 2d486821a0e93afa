"""Every operator on MindSpore's device Ascend: the bits of the kernels, which other tests judge."""

import pytest

from .judge import differences, run

FORWARD = ("FlashAttentionScore", "NsaCompress", "NsaCompressAttention", "NsaSelectedAttention")
BACKWARD = ("FlashAttentionScoreGrad", "NsaCompressGrad", "NsaSelectedAttentionGrad")
# Random configurations of each operator in PyNative mode, and in each way of compiling a graph.
COUNT, IN_GRAPHS = 100, 2


def check(folder, mode, cases, several=True, **environment):
    """Run the calls on device Ascend, compare every output; how many calls there were.

    `several`: some of the operators have more than one output.
    """
    file = folder / "results"
    program = ("-m", "tests.twin.cann.worker", "operators", mode, file, *cases)
    done = run(*program, folder=folder, **environment)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    calls, tensors, wrong = differences(file)
    assert not wrong, "\n".join(wrong)
    assert tensors > calls or not several
    return calls


@pytest.mark.parametrize("ops", [FORWARD, BACKWARD[:1], BACKWARD[1:]], ids="-".join)
def test_random_calls(ops, tmp_path):
    """MindSpore caches the executors of its calls."""
    assert check(tmp_path, "pynative", [f"{op}:0:{COUNT}" for op in ops]) == COUNT * len(ops)


@pytest.mark.parametrize(
    ("mode", "first"), [("graph", 0), ("jit_O0", 2), ("jit_O1", 4)], ids=lambda x: str(x)
)
def test_graphs(mode, first, tmp_path):
    ops = FORWARD + BACKWARD
    cases = [f"{op}:{first}:{IN_GRAPHS}" for op in ops]
    assert check(tmp_path, mode, cases) == IN_GRAPHS * len(ops)


def test_caches(tmp_path):
    """What lies on the device is written where it lies, with lists that are on the device, too."""
    cases = ["NsaCompressWithCache:0:16", "NsaSelectedAttentionInfer:0:16"]
    assert check(tmp_path, "pynative", cases, several=False) == 32


@pytest.mark.parametrize("mode", ["graph", "jit_O1"])
def test_caches_in_graphs(mode, tmp_path):
    cases = ["NsaCompressWithCache:0:4", "NsaSelectedAttentionInfer:0:4"]
    assert check(tmp_path, mode, cases, several=False) == 8


def test_executors_for_one_call(tmp_path):
    """Where CANN does not let an executor be used again, MindSpore makes one for each call."""
    ops = FORWARD + BACKWARD
    cases = [f"{op}:{6}:1" for op in ops]
    environment = {"MINDSPORE_NSA_TWIN_NOT_REPEATABLE": "1"}
    assert check(tmp_path, "pynative", cases, **environment) == len(ops)


def test_named_calls(tmp_path):
    """Among them dropout, biases, slopes, prefixes and masks in every layout."""
    ops = ("FlashAttentionScore", *BACKWARD[1:], *FORWARD[1:])
    assert check(tmp_path, "pynative", [f"{op}:named" for op in ops]) > 40
