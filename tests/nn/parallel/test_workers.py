"""Real workers, started by msrun, compute what one computes, and exchange what they should."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import cluster
from mindspore_nsa.nn.parallel.plan import ORDERS, Documents, Layout, neighbours

from .recorded import received
from .starts import msrun
from .workers import CASES, CONFIG, GRIDS, MORE, PACKINGS, TOKENS, Case, one_worker, own_part, whole

PROGRAM = Path(__file__).with_name("workers.py")
WORLD = "mccl_world_group"  # a CPU's name of it


@pytest.fixture(scope="module", params=sorted(CASES))
def finished(request, tmp_path_factory):
    """(workers, folder with what they computed)."""
    folder = tmp_path_factory.mktemp(f"workers_{request.param}")
    code, printed = msrun(folder / "logs", request.param, PROGRAM, folder)
    assert code == 0, "".join(text[-3000:] for text in printed)
    return request.param, folder


def close(one, several, limit, names):
    for name in names:
        scale = np.abs(one[name]).max()
        assert one[name].shape == several[name].shape, name
        assert np.abs(one[name] - several[name]).max() <= limit * scale, name


def test_same_as_one_worker(finished):
    """Outputs, gradients of x and of every parameter, and weights after steps of SGD.

    In bfloat16 gradients of keys and values are rounded on every worker before they are summed.
    """
    size, folder = finished
    check(CASES[size], folder, size)


@pytest.mark.soak
@pytest.mark.parametrize("size", sorted(MORE))
def test_more_cases(size, tmp_path):
    code, printed = msrun(tmp_path / "logs", size, PROGRAM, tmp_path, "more")
    assert code == 0, "".join(text[-3000:] for text in printed)
    check(MORE[size], tmp_path, size)


def check(cases, folder, size):
    for case in cases:
        parts = [dict(np.load(folder / f"{case.name}.{rank}.npz")) for rank in range(size)]
        one, several = one_worker(case), whole(case, parts)
        assert one.keys() == several.keys() and len(one) >= 5, case
        kinds = {kind: [n for n in one if n.startswith(kind)] for kind in ("out", "dx", "gr", "we")}
        narrow = case.dtype == "bfloat16"
        close(one, several, 2**-7 if narrow else 1e-6, kinds["out"])
        close(one, several, 2**-6 if narrow else 1e-6, kinds["dx"])
        close(one, several, 1e-2 if narrow else 2e-6, kinds["gr"])
        close(one, several, 1e-5, kinds["we"])


@pytest.mark.parametrize("order", ORDERS)
def test_a_context_of_one_worker(order):
    """Without msrun; outputs and gradients."""
    case = Case("pynative", order=order)
    one, alone = one_worker(case), own_part(case)
    assert one.keys() == alone.keys()
    for name in one:
        close(one, alone, 1e-6, [name])


def test_dropout(finished):
    """Workers with the same tokens drop the same, others do not."""
    size, folder = finished
    masks = [dict(np.load(folder / f"dropped.{rank}.npz")) for rank in range(size)]
    for kind, (context, tensor) in GRIDS[size].items():
        found = [mask[kind] for mask in masks]
        assert context * tensor == size
        for a in range(size):
            assert 0.4 < found[a].mean() < 0.6
            for b in range(a):
                assert np.array_equal(found[a], found[b]) == (a // tensor == b // tensor)


def calls_of(folder, case, size):
    """(those of a forward, those of the backward after it) of every worker."""
    found = []
    for rank in range(size):
        calls = json.loads((folder / f"{case.name}.{rank}.json").read_text())
        first = calls.index("forward")
        forward, both = calls[:first], calls[first + 1 :]
        # The calls of the first packing.
        both = both[: len(both) // (len(PACKINGS) if case.kind == "lists" else 1)]
        # A forward is the same whether a gradient follows or not.
        assert both[:first] == forward
        found.append((forward, both[first:]))
    return found


def alike(cases, **wanted):
    """Cases with such attributes."""
    return [c for c in cases if all(getattr(c, k) == v for k, v in wanted.items())]


def plain(calls):
    """Names and shapes of calls; of exchanges, whose sizes are each worker's own, the names."""
    return [call[:1] if call[0] == "AlltoAllV" else (call[0], *call[2:]) for call in calls]


def test_same_calls_on_all_workers(finished):
    """In the same order, forward and backward: else they would wait for each other, or mix rows."""
    size, folder = finished
    cases = alike(CASES[size], mode="pynative")
    assert len(cases) >= 6
    for case in cases:
        first, *others = calls_of(folder, case, size)
        assert len(first[0]) + len(first[1]) >= 2
        for other in others:
            assert [plain(part) for part in other] == [plain(part) for part in first], case


def exchange(table, back=False):
    """The call of AlltoAllV for a `Halo`, or of its gradient."""
    width = CONFIG.num_kv_heads * (CONFIG.head_dim + CONFIG.value_head_dim)
    sent, received = ([n * width for n in numbers] for numbers in (table.sent, table.received))
    if back:
        sent, received = received, sent
    return ["AlltoAllV", WORLD, [sum(sent)], "Float32", sent, received]


def call(name, *shape):
    return [name, WORLD, list(shape), "Float32"]


def test_calls_on_ascend(finished):
    """Operator, group, shape, dtype and order, and the sizes of exchanges, of every worker."""
    size, folder = finished
    c = CONFIG
    cases = alike(CASES[size], device="Ascend", grid=(0, 1), kind="packed")
    assert cases
    for case in cases:
        layout = Layout(TOKENS, size, case.order)
        for rank, (forward, backward) in enumerate(calls_of(folder, case, size)):
            before = neighbours(layout, rank, before=c.window_size - 1)
            after = neighbours(layout, rank, after=c.compress_block_size - 1)
            sizes = c.compress_block_size, c.compress_stride
            rows = Documents(layout, rank, PACKINGS[0]).most_windows(*sizes)
            width = c.num_kv_heads * (c.head_dim + c.value_head_dim)
            keys, values = (c.num_kv_heads, c.head_dim), (c.num_kv_heads, c.value_head_dim)
            assert forward == [
                call("AllGather", 1, 12),  # of the comparison
                exchange(after),
                call("AllGather", rows, width),
                call("AllGather", layout.own, *keys),
                call("AllGather", layout.own, *values),
                exchange(before),
            ]
            wanted = [
                exchange(after, back=True),
                call("ReduceScatter", size * rows, width),
                call("ReduceScatter", TOKENS, *keys),
                call("ReduceScatter", TOKENS, *values),
                exchange(before, back=True),
            ]
            assert sorted(backward, key=str) == sorted(wanted, key=str)
            # Compressed rows are those of windows that reach beyond the part.
            assert backward.index(wanted[1]) < backward.index(wanted[0])


def test_calls_of_heads(finished):
    """One sum after the output's product, and one of the gradient of x; in their own group."""
    size, folder = finished
    for case in alike(CASES[size], mode="pynative", layer="nsa"):
        if case.grid[1] == 1 or case.kind != "packed":
            continue
        context = size // case.grid[1]
        for rank, (forward, backward) in enumerate(calls_of(folder, case, size)):
            first = rank // case.grid[1] * case.grid[1]
            group = "_".join(map(str, range(first, first + case.grid[1])))
            named = WORLD if context == 1 else f"mindspore_nsa_{group}"
            total = ["AllReduce", named, [TOKENS // context, CONFIG.hidden_size], "Float32"]
            assert forward.count(total) == backward.count(total) == 1
            assert forward[-1] == total == backward[-1]
            if context == 1:
                # The weights of a norm are those of all heads.
                norms = [["AllReduce", named, [CONFIG.head_dim], "Float32"]] * 2
                assert forward[:-1] == []
                assert backward[:-1] == (norms if case.options else [])


def test_bytes(finished):
    """Bytes agree with the tables: benchmarks.cluster for Ascend, docs/parallel.md for a CPU."""
    size, folder = finished
    c = CONFIG
    for case in alike(CASES[size], mode="pynative", layer="nsa", grid=(0, 1), kind="packed"):
        if case.dtype == "bfloat16":
            continue  # a CPU moves float32
        layout = Layout(TOKENS, size, case.order)
        rows = Documents(layout, 0, PACKINGS[0]).most_windows(8, 4)
        sizes = cluster.Sizes(
            *(c.num_heads, c.num_kv_heads, c.head_dim, c.value_head_dim),
            *(c.compress_block_size, c.compress_stride, c.window_size),
            bytes=4,
        )
        parts = list(zip(*calls_of(folder, case, size)))
        moved = [[received(calls, size, rank) for rank, calls in enumerate(p)] for p in parts]
        compared = (size - 1) * 12 * 4
        forward = [n - compared for n in moved[0]]
        if case.device == "Ascend":
            found = cluster.rows_received(TOKENS, size, case.order, rows, sizes) * sizes.row * 4
            assert sum(forward) == found
            assert sum(moved[1]) == found
        else:
            borders = layout.passes * (c.window_size - 1 + c.compress_block_size - 1)
            found = (size - 1) * (layout.own + rows + borders) * sizes.row * 4
            assert set(forward) == {found}
            assert set(moved[1]) == {2 * found}
