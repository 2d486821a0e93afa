"""The computation of one of several workers: `msrun ... workers.py FOLDER [more]`.

A case is a layer and an input, computed with its gradients; every worker writes its part of the
result, and in PyNative mode the calls of its collectives. `one_worker` computes the whole of a
case, without a context.
"""

import contextlib
import functools
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
if __name__ == "__main__":
    sys.path.append(str(ROOT))

import mindspore as ms  # noqa: E402
import numpy as np  # noqa: E402
from mindspore import Parameter, Tensor, ops  # noqa: E402
from mindspore.communication import init  # noqa: E402

from mindspore_nsa import nn  # noqa: E402
from mindspore_nsa.nn.parallel.plan import Layout  # noqa: E402
from tests.nn.parallel.recorded import recording  # noqa: E402

CONFIG = nn.NSAConfig(
    hidden_size=32,
    num_heads=8,
    num_kv_heads=4,
    head_dim=8,
    value_head_dim=4,
    compress_block_size=8,
    compress_stride=4,
    select_block_size=8,
    select_block_count=4,
    window_size=20,
    rope_theta=100.0,
)
# Optional features of a layer.
OPTIONS = {"qk_norm": True, "shared_kv": True, "rope_pairs": "interleaved", "has_bias": True}
TOKENS = 192
PACKINGS = ((17, 75, 76, 100, 192), (64, 128, 128, 150, 192))
FEW, MANY = 6, 20


@dataclass(frozen=True)
class Case:
    """A layer and how it is called; its name is that of the files of its results."""

    mode: str = "graph"
    dtype: str = "float32"
    order: str = "contiguous"
    kind: str = "packed"  # packed: a tuple; lists: Tensors, both packings in one graph; batch
    layer: str = "nsa"  # nsa, dense, window
    grid: tuple = (0, 1)  # workers that share a text and the heads; 0: all
    steps: int = 1  # of SGD
    recompute: bool = False
    options: bool = False  # of the configuration: norms, shared keys
    device: str = "CPU"  # whose collectives are called; those of Ascend are made of a CPU's

    @property
    def config(self):
        """The layer's config."""
        return replace(CONFIG, **OPTIONS) if self.options else CONFIG

    @property
    def name(self):
        """A file's name."""
        return "_".join(map(str, vars(self).values())).replace(" ", "")


def make(case, **parallel):
    """The layer of a case."""
    if case.layer == "nsa":
        return nn.NativeSparseAttention(case.config, **parallel)
    return nn.DenseAttention(case.config, window=case.layer == "window", **parallel)


def drawn(case):
    """(parameters, x, what the output is to be) of a case, of the whole."""
    rng = np.random.default_rng(5)
    shape = (3, TOKENS // 3, 32) if case.kind == "batch" else (TOKENS, 32)
    x, goal = rng.standard_normal((2, *shape)).astype(np.float32)
    parameters = {}
    for p in make(case).trainable_params():
        value = rng.standard_normal(p.shape) * (
            0.3 if "compress" in p.name else p.shape[-1] ** -0.5
        )
        parameters[p.name] = value.astype(np.float32)
    return parameters, x, goal


def as_array(tensor):
    """A Tensor of any dtype as NumPy's."""
    return tensor.astype(ms.float32).asnumpy()


class Loss(ms.nn.Cell):
    """A worker's share of the mean square error of a layer's output, and the output."""

    def __init__(self, layer):
        super().__init__(auto_prefix=False)
        self.layer = layer

    def construct(self, x, goal, ends):
        """(sum over own tokens / number of all, output)."""
        out = self.layer(x, ends)
        return ops.square(ops.cast(out, ms.float32) - goal).sum() / TOKENS, out


class Gradient(ms.nn.Cell):
    """((loss, output), (gradient of x, of every parameter))."""

    def __init__(self, layer):
        super().__init__(auto_prefix=False)
        self.loss = Loss(layer)
        self.weights = ms.ParameterTuple(layer.trainable_params())

    def construct(self, x, goal, ends):
        """Value and gradients of the loss."""
        return ms.value_and_grad(self.loss, 0, self.weights, has_aux=True)(x, goal, ends)


def train(case, gradient, x, goal, lists, total):
    """Results of every packing, and the weights after some steps."""
    results, weights = {}, gradient.weights
    dtype = getattr(ms, case.dtype)
    for step in range(max(case.steps, len(lists))):
        number = step % len(lists)
        (_, out), (dx, slopes) = gradient(Tensor(x).astype(dtype), Tensor(goal), lists[number])
        slopes = [total(slope) for slope in slopes]
        if step < len(lists):
            results[f"out {number}"], results[f"dx {number}"] = as_array(out), as_array(dx)
            for weight, slope in zip(weights, slopes):
                results[f"gradient {number} {weight.name}"] = as_array(slope)
        if case.steps > 1:
            for weight, slope in zip(weights, slopes):
                weight.set_data(weight - 1e-2 * slope)
    if case.steps > 1:
        results |= {f"weight {w.name}": as_array(w) for w in weights}
    return results


def set_mode(case):
    """Choose the mode of a case."""
    ms.set_context(mode=ms.GRAPH_MODE if case.mode == "graph" else ms.PYNATIVE_MODE)


def load(layer, arrays):
    """Put arrays into the parameters of a layer."""
    for p in layer.trainable_params():
        p.set_data(
            arrays[p.name] if isinstance(arrays[p.name], Parameter) else Tensor(arrays[p.name])
        )


def lists_of(case, tensors):
    """Arguments of a layer for the documents of a case."""
    if case.kind == "lists":
        return list(map(tensors, PACKINGS))
    return [None] if case.kind == "batch" else list(PACKINGS[:1])


def one_worker(case):
    """Results of one worker, in PyNative mode, for all cases that compute the same."""
    only = ("dtype", "kind", "layer", "steps", "options")
    return _one_worker(Case("pynative", **{name: getattr(case, name) for name in only}))


@functools.cache
def _one_worker(case):
    set_mode(case)
    parameters, x, goal = drawn(case)
    layer = make(case)
    load(layer, parameters)
    lists = lists_of(case, lambda ends: Tensor(np.array(ends, np.int64)))
    return train(case, Gradient(layer), x, goal, lists, lambda slope: slope)


def own_part(case, calls=None):
    """Results of this worker; gradients are those of all that have the same weights.

    `calls` is what `recording` gives: it will hold the calls of a forward, "forward", and then all.
    """
    set_mode(case)
    world = nn.parallel_groups().data.size
    groups = nn.parallel_groups(context=case.grid[0] or world, tensor=case.grid[1])
    parameters, x, goal = drawn(case)
    tokens = TOKENS // 3 if case.kind == "batch" else TOKENS
    shards = nn.ContextShards(tokens, groups.context, case.order)
    more = {"recompute_gather": True} if case.recompute else {}
    layer = make(case, context=shards, tensor_group=groups.tensor, **more)
    load(layer, nn.shard_parameters(parameters, layer, groups.tensor))
    lists = lists_of(case, lambda ends: shards.lists(ends, case.config))
    axis = 1 if case.kind == "batch" else 0
    reduce = ops.AllReduce(group=groups.replicas.name) if groups.replicas.size > 1 else None

    def total(slope):
        # All workers with other data have the same here: their mean.
        return slope if reduce is None else reduce(slope) / groups.data.size

    own = shards.shard(x, axis), shards.shard(goal, axis)
    if calls is not None:
        calls.clear()
        layer(Tensor(own[0]).astype(getattr(ms, case.dtype)), lists[0])
        calls.append("forward")
    return train(case, Gradient(layer), *own, lists, total)


def dropped(context, tensor):
    """Which values of a layer's output dropout takes away, on this worker."""
    groups = nn.parallel_groups(context=context, tensor=tensor)
    shards = nn.ContextShards(64, groups.context) if context > 1 else None
    config = replace(CONFIG, dropout=0.5)
    ms.set_seed(groups.seed(3))
    layer = nn.NativeSparseAttention(config, context=shards, tensor_group=groups.tensor)
    out = layer.set_train()(Tensor(np.ones((64 // context, 32), np.float32)), (64,))
    return out.asnumpy() == 0


def whole(case, parts):
    """The results of all workers as one would have them."""
    size, tensor = len(parts), case.grid[1]
    context = case.grid[0] or size // tensor
    heads, layer = nn.WorkerGroup("", tuple(range(tensor)), 0, False), make(case)
    found = {}
    for name in parts[0]:
        kind = name.split()[0]
        if kind in ("out", "dx"):
            # One of each tensor group; the first data group.
            own = [parts[c * tensor][name] for c in range(context)]
            for t in range(tensor):
                for c in range(context):
                    assert np.array_equal(parts[c * tensor + t][name], own[c]), (name, c, t)
            length = TOKENS // 3 if case.kind == "batch" else TOKENS
            axis = 1 if case.kind == "batch" else 0
            places = Layout(length, context, case.order).places(np.arange(length))
            found[name] = np.concatenate(own, axis).take(places, axis)
        else:
            *_, plain = name.split()
            # Workers that have the same heads agree.
            for t in range(tensor):
                for i in range(t, size, tensor):
                    assert np.array_equal(parts[i][name], parts[t][name]), (name, i)
            one = [{plain: parts[t][name]} for t in range(tensor)]
            found[name] = nn.unshard_parameters(one, layer, heads)[plain]
    return found


CASES = {
    2: (
        Case("pynative"),
        Case("pynative", order="head_tail", kind="lists"),
        Case("pynative", "bfloat16", "head_tail", recompute=True),
        Case("pynative", kind="batch", options=True),
        Case("graph", kind="lists", steps=FEW),
        Case("graph", order="head_tail", kind="batch", recompute=True),
        Case("pynative", layer="window", kind="batch"),
        Case("pynative", grid=(1, 2), options=True),
        Case("graph", "bfloat16", grid=(1, 2)),
        Case("pynative", device="Ascend"),
        Case("pynative", order="head_tail", kind="batch", device="Ascend"),
        Case("pynative", grid=(1, 2), device="Ascend"),
    ),
    4: (
        Case("pynative", order="head_tail"),
        Case("pynative", kind="lists", recompute=True),
        Case("pynative", "bfloat16", kind="batch"),
        Case("pynative", grid=(1, 4), layer="dense"),
        Case("pynative", order="head_tail", grid=(2, 2), kind="lists", steps=FEW),
        Case("pynative", grid=(2, 1)),
        Case("pynative", device="Ascend"),
        Case("pynative", order="head_tail", device="Ascend"),
        Case("pynative", grid=(2, 2), device="Ascend"),
    ),
}


# Other pairs of what the cases above have, and long runs; graphs take each worker long to compile.
MORE = {
    2: (
        Case("graph", "bfloat16"),
        Case("graph", kind="lists", steps=MANY),
        Case("graph", order="head_tail", layer="dense"),
    ),
    4: (Case("graph", order="head_tail", grid=(2, 2), kind="lists", steps=MANY),),
}

# Grids of dropout, by the operands that workers share.
GRIDS = {2: {"text": (2, 1), "heads": (1, 2)}, 4: {"both": (2, 2)}}


def main(folder, cases=CASES):
    """Compute all cases, and one a second time."""
    init()
    rank, size = ms.communication.get_rank(), ms.communication.get_group_size()
    for i, case in enumerate(cases[size]):
        name = f"{case.name}.{rank}"
        written = case.mode == "pynative"
        with recording(case.device) if written else contextlib.nullcontext() as calls:
            found = own_part(case, calls)
        if written:
            Path(folder, f"{name}.json").write_text(json.dumps(calls))
        if i == 0:
            again = own_part(case)
            assert all(np.array_equal(found[name], again[name]) for name in found)
        np.savez(Path(folder) / f"{name}.npz", **found)
        print("done", case.name, flush=True)
    set_mode(Case("pynative"))
    masks = {kind: dropped(*grid) for kind, grid in GRIDS[size].items()}
    np.savez(Path(folder) / f"dropped.{rank}.npz", **masks)


if __name__ == "__main__":
    main(sys.argv[1], MORE if sys.argv[2:] == ["more"] else CASES)
