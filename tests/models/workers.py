"""Latent attention of two workers: `msrun ... workers.py`; each compares with the whole."""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parents[2]))

import mindspore as ms  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
from mindspore import Tensor, ops  # noqa: E402
from mindspore.communication import init  # noqa: E402

from mindspore_nsa import nn  # noqa: E402
from tests.models.small import HIDDEN, KINDS, error, layer_of, text_of  # noqa: E402

# Documents that borders of the parts cut, and one of a single token.
ENDS = (5, 6, 15, 24)


def make(kind, fields, **parallel):
    """A layer of a kind with other workers."""
    made, config, layer_idx = KINDS[kind]
    return made({**config, **fields}, layer_idx, **parallel)


def differentiated(layer, x, slope, share, given, **options):
    """(output, picks, loss), gradients of x and of every parameter, of sum(out slope) + loss."""

    def forward(x):
        found = layer(x, given, return_indices=True, **options)
        loss = found[1] * share if len(found) == 3 else ops.zeros((), ms.float32)
        return (found[0] * slope).sum() + loss, found[0], found[-1], loss

    step = ms.value_and_grad(forward, 0, layer.trainable_params(), has_aux=True)
    (_, out, picks, loss), (dx, of_parameters) = step(x)
    names = [p.name for p in layer.trainable_params()]
    gradients = {n: g.asnumpy() for n, g in zip(names, of_parameters, strict=True)}
    return out.asnumpy(), picks.asnumpy(), float(loss), dx.asnumpy(), gradients


def close(got, want, what):
    """Equal but for rounding; gradients may be 0."""
    bound = 2e-6 * max(1.0, np.abs(want).max())
    assert got.shape == want.shape and np.abs(got - want).max() <= bound, what


def shared_text(kind, order, batch=0, **options):
    """Own tokens' outputs, picks and gradients are those of the whole text."""
    group, total = nn.parallel_groups(context=2).context, ops.AllReduce()
    axis, ends = (1, None) if batch else (0, ENDS)
    x, slope = text_of(max(batch, 1), 24, 1), text_of(max(batch, 1), 24, 2)
    if not batch:
        x, slope = x[0], slope[0]
    layer = layer_of(kind)
    shards = nn.ContextShards(24, group, order)
    part = make(kind, {}, context=shards)
    ms.load_param_into_net(part, layer.parameters_dict())
    own, of_own = Tensor(shards.shard(x, axis)), Tensor(shards.shard(slope, axis))
    want = differentiated(layer, Tensor(x), Tensor(slope), 1.0, ends, **options)
    got = differentiated(part, own, of_own, 0.5, ends, **options)
    for i, what in ((0, "output"), (1, "picks"), (3, "gradient of x")):
        close(got[i], shards.shard(want[i], axis), (kind, order, what))
    assert abs(float(total(Tensor(got[2]))) - want[2]) < 1e-6, "loss"
    for name, gradient in want[4].items():
        close(total(Tensor(got[4][name])).asnumpy(), gradient, (kind, order, name))
    if "stage" in options:
        assert want[2] > 0 and want[4]["indexer.wk.weight"].any()
        return
    given = Tensor(shards.shard(want[1], axis))
    close(part(own, ends, topk_indices=given).asnumpy(), got[0], "given picks")
    recall, of_all = (
        cell(y, ends, stage="recall")[1] for cell, y in ((part, own), (layer, Tensor(x)))
    )
    close(recall.asnumpy(), shards.shard(of_all.asnumpy(), axis), "recall")


def shared_text_in_a_graph():
    """One graph serves all documents, with gradients."""
    group, x = nn.parallel_groups(context=2).context, text_of(1, 24, 1)[0]
    layer, shards = layer_of("deepseek_v32"), nn.ContextShards(24, group, "head_tail")
    part = make("deepseek_v32", {}, context=shards)
    ms.load_param_into_net(part, layer.parameters_dict())

    def loss(x, lists):
        return (part(x, lists) ** 2).sum()

    step = ms.jit(ms.grad(loss))
    whole = ms.grad(lambda x, ends: (layer(x, ends) ** 2).sum())
    for ends in (ENDS, (1, 8, 8, 24)):
        got = step(Tensor(shards.shard(x)), shards.lists(ends, part)).asnumpy()
        close(got, shards.shard(whole(Tensor(x), ends).asnumpy()), ends)


def shared_heads():
    """Picks and outputs are the same on all workers, and gradients those of the whole."""
    group = nn.parallel_groups(tensor=2).tensor
    x, slope = text_of(1, 24, 1)[0], text_of(1, 24, 2)[0]
    fields = {"attention_bias": True}
    layer = layer_of("glm_moe_dsa", **fields)
    part = make("glm_moe_dsa", fields, tensor_group=group)
    whole = layer.parameters_dict()
    ms.load_param_into_net(part, nn.shard_parameters(whole, part, group))
    assert part.kv_b_proj.weight.shape[0] * 2 == layer.kv_b_proj.weight.shape[0]
    want = differentiated(layer, Tensor(x), Tensor(slope), 1.0, ENDS)
    got = differentiated(part, Tensor(x), Tensor(slope), 1.0, ENDS)
    np.testing.assert_array_equal(got[1], want[1])
    close(got[0], want[0], "output")
    close(got[3], want[3], "gradient of x")
    mine = nn.shard_parameters(want[4], part, group)
    for name in mine:
        close(got[4][name], mine[name], name)
    back = nn.gather_parameters(part.parameters_dict(), part, group)
    for name, value in whole.items():
        np.testing.assert_array_equal(back[name].asnumpy(), value.asnumpy())
    cache = part.new_cache(1, 24)
    rows = [part(Tensor(x[None, a:b]), cache=cache) for a, b in ((0, 9), (9, 10), (10, 24))]
    alone = layer(Tensor(x[None])).asnumpy()
    assert error(np.concatenate([row.asnumpy() for row in rows], 1), alone) < 1e-5
    with pytest.raises(ValueError, match="stage must be None in a layer with a tensor_group"):
        part(Tensor(x), ENDS, stage="sparse")
    with pytest.raises(ValueError, match="num_attention_heads must be a multiple of the 2 workers"):
        make("glm_moe_dsa", {"num_attention_heads": 3}, tensor_group=group)


def wrong_use():
    """Errors, the same on all workers, and that of workers that differ."""
    group = nn.parallel_groups(context=2).context
    part = make("deepseek_v32", {}, context=nn.ContextShards(24, group))
    x = Tensor(text_of(1, 12))
    with pytest.raises(ValueError, match="cache must be None in a layer with a context"):
        part.new_cache(1, 24)
    with pytest.raises(ValueError, match="cache must be None in a layer with a context"):
        part(x, cache=layer_of("deepseek_v32").new_cache(1, 24))
    with pytest.raises(ValueError, match="key_padding_mask must be None in a layer with a context"):
        part(x, key_padding_mask=Tensor(np.zeros((1, 12), bool)))
    with pytest.raises(ValueError, match=r"x must be of shape \[12, 32\] .* a worker"):
        part(Tensor(text_of(1, 24)))
    with pytest.raises(TypeError, match="context must be ContextShards or None"):
        make("deepseek_v32", {}, context=group)
    with pytest.raises(ValueError, match="config must be the same on all workers"):
        make("deepseek_v32", {"index_topk": 4 + group.rank}, context=nn.ContextShards(24, group))


def main():
    """All of them; HIDDEN is that of x."""
    init()
    assert HIDDEN == 32
    shared_text("deepseek_v32", "contiguous")
    shared_text("deepseek_v32", "head_tail", stage="sparse")
    shared_text("glm_moe_dsa", "head_tail", batch=2)
    shared_text("glm_moe_dsa", "contiguous", batch=2, stage="dense")
    shared_heads()
    wrong_use()
    shared_text_in_a_graph()
    print("all equal", flush=True)


if __name__ == "__main__":
    main()
