"""Calls of NsaSelectedAttention and its gradient that Ascend accepts."""

from tests.common.cases import parity_cases
from tests.common.draw import Draw
from tests.common.nsa_cases import selected_attention_grad_of, selected_attention_of

from .launch import raw

HALVES = ("float16", "bfloat16")
BLOCKS = (16, 16, 32, 48, 64, 64, 112, 128)
COUNTS = (1, 2, 3, 5, 8, 16, 31, 32)
GROUPS = (1, 1, 2, 3, 4, 5, 8, 16, 16, 17, 33)
DIMS = (16, 32, 64, 112, 128, 192, 256)


def make_selected_case(seed):
    """The random case of that seed; every fifth has rows longer than the UB holds at a time."""
    draw = Draw(seed, HALVES[seed % 2])
    long = seed % 5 == 4
    block, count = draw.pick(BLOCKS), draw.pick(COUNTS)
    if long:
        block, count = draw.pick((64, 128)), draw.pick((17, 31, 32))
    group, kv_heads = draw.pick(GROUPS), draw.between(1, 3)
    if group > 8:
        kv_heads = 1
    dim = draw.pick(DIMS)
    value_dim = draw.pick(DIMS)
    most = max(2, int(2e5 / (group * kv_heads * dim)))
    queries = draw.lengths([1, 2, 7, 8, 9, 15, 16, 17, 33, 65], min(most, 150))
    keys = [0, 1, block - 1, block, block + 1, 3 * block + 5, (count + 2) * block + 1]
    keys = [draw.pick(keys[4:] if long else keys) for _ in queries]
    causal = draw.chance(0.5)
    q_offset = None
    if draw.chance(0.4) or (causal and long):
        q_offset = [draw.between(0, k + 2) for k in keys]
    case = selected_attention_of(
        draw,
        block,
        count,
        (group * kv_heads, kv_heads),
        dim,
        queries,
        keys,
        causal,
        q_offset,
        value_dim,
    )
    case.name = f"seed {seed}"
    return case


def make_selected_grad_case(seed):
    """The gradient of the case of that seed."""
    draw = Draw([seed, 1], HALVES[seed % 2])
    return selected_attention_grad_of(make_selected_case(seed), draw)


def lengths(case):
    """[(queries, keys)] of every segment."""
    x = case.named()
    ends = [[0, *x[name]] for name in ("actual_seq_qlen", "actual_seq_kvlen")]
    return list(zip(*([b - a for a, b in zip(e, e[1:])] for e in ends), strict=True))


def shapes(case):
    """{size: value} of a call."""
    x = case.named()
    (t1, n1, d), (t2, n2, dv) = raw(x["query"]).shape, raw(x["value"]).shape
    return dict(t1=t1, t2=t2, n1=n1, n2=n2, d=d, dv=dv, group=n1 // n2)


def selected_parity(kind="selected"):
    """The named cases of "selected" or "selected_grad": {name: function that builds the case}."""
    return {
        name: build
        for name, build in parity_cases().items()
        if name.startswith(kind + " ") and "S=" not in name
    }
