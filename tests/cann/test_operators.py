"""Every operator on MindSpore's device Ascend: the bits of the kernels, which other tests judge."""

import pytest

from .judge import ROOT, called_by_type, differences, run

FORWARD = ("FlashAttentionScore", "NsaCompress", "NsaCompressAttention", "NsaSelectedAttention")
BACKWARD = ("FlashAttentionScoreGrad", "NsaCompressGrad", "NsaSelectedAttentionGrad")
CACHES = (
    "NsaCompressWithCache",
    "NsaCompressAttentionInfer",
    "NsaSelectedAttentionInfer",
    "NsaDecode",
)
# Random configurations in PyNative mode: of each operator; of each with make soak; without it, of
# each that has a cache. A page says these numbers.
COUNT, SOAKED, OF_CACHES = 20, 100, 8
# In each way of compiling a graph: the first, and how many.
GRAPHS = {"graph": (0, 2), "jit_O0": (2, 1), "jit_O1": (4, 1)}


def check(folder, mode, cases, **environment):
    """Run the calls on device Ascend, compare every output; how many calls there were."""
    file = folder / "results"
    program = ("-m", "tests.cann.worker", "operators", mode, file, *cases)
    done = run(*program, folder=folder, **environment)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    calls, tensors, wrong = differences(file)
    assert not wrong, "\n".join(wrong)
    assert tensors > calls  # some of the operators have more than one output
    assert called_by_type(folder) == set()
    return calls


@pytest.mark.parametrize("count", [COUNT, pytest.param(SOAKED, marks=pytest.mark.soak)])
def test_random_calls(count, tmp_path):
    """MindSpore caches the executors of its calls; what lies on the device is written there."""
    cases = [f"{op}:0:{count}" for op in FORWARD + BACKWARD]
    of_caches = OF_CACHES if count == COUNT else count
    cases += [f"{op}:0:{of_caches}" for op in CACHES]
    calls = check(tmp_path, "pynative", cases)
    assert calls == count * len(FORWARD + BACKWARD) + of_caches * len(CACHES)


def test_numbers_on_the_page():
    page = " ".join((ROOT / "docs" / "ascend.md").read_text().split())
    assert (
        f"compares every output and gradient of {COUNT} random configurations of each operator, "
        f"{OF_CACHES} of those with a cache, and {SOAKED} of each with `make soak`" in page
    )


@pytest.mark.parametrize("mode", GRAPHS)
def test_graphs(mode, tmp_path):
    ops, (first, count) = FORWARD + BACKWARD + CACHES, GRAPHS[mode]
    cases = [f"{op}:{first}:{count}" for op in ops]
    assert check(tmp_path, mode, cases) == count * len(ops)


def test_executors_for_one_call(tmp_path):
    """Where CANN does not let an executor be used again, MindSpore makes one for each call."""
    ops = FORWARD + BACKWARD
    cases = [f"{op}:{6}:1" for op in ops]
    environment = {"ASCENDC_TWIN_NOT_REPEATABLE": "1"}
    assert check(tmp_path, "pynative", cases, **environment) == len(ops)


def test_named_calls(tmp_path):
    """Among them dropout, biases, slopes, prefixes and masks in every layout.

    Those of selected attention have sizes of their own and no option that random ones lack.
    """
    ops = ("FlashAttentionScore", "NsaCompressGrad", "NsaCompress", "NsaCompressAttention")
    assert check(tmp_path, "pynative", [f"{op}:named" for op in ops]) > 25
