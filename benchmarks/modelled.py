"""Modelled time of the Ascend kernels on the twin, beside the bound that counts alone set.

A case is executed at two sizes. Named sizes beyond them are extrapolated: the part of a launch that
grows with what tiling gives its busiest core, and the part that does not; bounds grow with what it
gives all of them. The tiling itself is asked for both. Those rows are marked. `--executed` runs all
of them; the largest take the twin up to half an hour each.
"""

import csv
import json
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path

import numpy as np

from . import tiling

CHIPS = {"910B1": (24, 48), "910B3": (20, 40), "910B4": (20, 40)}


@dataclass(frozen=True)
class ModelledCase:
    """One kernel; `call(tokens)` runs it, among others perhaps."""

    name: str
    operator: str
    tiling: str  # the function of tiling.cc that knows its work
    call: Callable
    sizes: tuple  # beside the tokens, as tiling is asked of them
    executed: tuple
    asked: tuple
    shape: str

    @property
    def kernel(self):
        """Name of the kernel's entry, after the operator's type."""
        from mindspore_nsa import _native

        return re.sub(r"\B([A-Z])", r"_\1", _native.ascend_type(self.operator)).lower()

    def work(self, tokens, chip):
        """Of the busiest core and of all, in any unit."""
        # Attention has its blocks on cube cores, compression on vector cores.
        cores = CHIPS[chip][0 if "Attention" in self.operator else 1]
        return tiling.work(self.tiling, tokens, *self.sizes, cores=cores)


@dataclass
class Row:
    case: str
    tokens: int
    microseconds: float
    bound_microseconds: float
    bound_by: str
    ratio: float
    extrapolated: bool
    shape: str


def _half(rng, *shape):
    import mindspore as ms

    return ms.Tensor(rng.standard_normal(shape, np.float32).astype(np.float16))


def _compress(gradient, heads=4, dim=128, block=32, stride=16):
    def call(tokens):
        import mindspore as ms

        import mindspore_nsa

        rng = np.random.default_rng(7)
        x, w = _half(rng, tokens, heads, dim), _half(rng, block, heads)

        def forward(x, w):
            return mindspore_nsa.nsa_compress(x, w, block, stride, actual_seq_len=(tokens,))

        if gradient:
            ms.grad(lambda x, w: forward(x, w).astype(ms.float32).sum(), (0, 1))(x, w)[0].asnumpy()
        else:
            forward(x, w).asnumpy()

    return call, (heads, dim, block, stride), f"N={heads} D={dim} l={block} s={stride} float16"


def _compress_with_cache(heads=4, dim=128, block=32, stride=16):
    def call(tokens):
        import mindspore as ms

        import mindspore_nsa

        rng = np.random.default_rng(7)
        x, w = _half(rng, tokens * block, heads, dim), _half(rng, block, heads)
        mindspore_nsa.nsa_compress_with_cache(
            *(x, w, tuple(range(tokens)), block, stride, block),
            actual_seq_len=(block,) * tokens,
            cache=ms.Tensor(np.zeros((tokens, heads, dim), np.float16)),
        ).asnumpy()

    return call, (), f"new tokens, each fills a window; N={heads} D={dim} l={block} float16"


def _selected_infer(batch, heads=64, kv_heads=4, dim=192, value_dim=128, select=64, count=16):
    def call(tokens):
        import mindspore as ms

        import mindspore_nsa

        rng = np.random.default_rng(7)
        places = tokens // select
        # Of a short row all blocks, and -1 where there are no more.
        blocks = np.full((batch * kv_heads, count), -1, np.int32)
        for chosen in blocks:
            chosen[:places] = rng.permutation(places)[:count]
        blocks = blocks.reshape(batch, 1, kv_heads, count)
        # What is selected has pages of its own, the rest is not read.
        table, pages = np.zeros((batch, places), np.int32), 0
        for row, chosen in zip(table, blocks, strict=True):
            chosen = np.unique(chosen[chosen >= 0])
            row[chosen] = pages + np.arange(len(chosen))
            pages += len(chosen)
        caches = [_half(rng, pages, select, kv_heads, d) for d in (dim, value_dim)]
        mindspore_nsa.nsa_selected_attention_infer(
            *(_half(rng, batch, 1, heads, dim), *caches, ms.Tensor(blocks), dim**-0.5),
            *(heads, kv_heads, select, count, select),
            block_table=ms.Tensor(table),
            actual_seq_kvlen=(tokens,) * batch,
        ).asnumpy()

    shape = f"B={batch} N1={heads} N2={kv_heads} D={dim} Dv={value_dim} l'={select} cnt={count}"
    return call, (), shape + " one token of each row, float16"


def _compress_infer(batch, heads=64, kv_heads=4, dim=192, value_dim=128, page=128, count=16):
    block, stride, select = 32, 16, 64

    def call(tokens):
        import mindspore as ms

        import mindspore_nsa

        rng = np.random.default_rng(7)
        compressed = (tokens - block) // stride + 1
        places = -(-compressed // page)
        table = rng.permutation(batch * places).astype(np.int32).reshape(batch, places)
        caches = [_half(rng, batch * places, page, kv_heads, d) for d in (dim, value_dim)]
        mindspore_nsa.nsa_compress_attention_infer(
            *(_half(rng, batch, 1, heads, dim), *caches, dim**-0.5),
            *(heads, kv_heads, select, count, page, block, stride),
            layout="BSND",
            block_table=ms.Tensor(table),
            actual_cmp_seq_kvlen=(compressed,) * batch,
            actual_sel_seq_kvlen=(tokens,) * batch,
            init_blocks=1,
            local_blocks=2,
        )[0].asnumpy()

    shape = f"B={batch} N1={heads} N2={kv_heads} D={dim} Dv={value_dim} l={block} s={stride}"
    return call, (), shape + f" l'={select} cnt={count} one token of each row, float16"


def _decode(batch, heads=64, kv_heads=4, dim=192, value_dim=128, page=128, count=16):
    block, stride, select, window = 32, 16, 64, 512

    def call(tokens):
        import mindspore as ms

        import mindspore_nsa

        rng = np.random.default_rng(7)

        def caches(pages, page):
            return [_half(rng, pages, page, kv_heads, d) for d in (dim, value_dim)]

        def table(tokens):
            places = -(-tokens // page)
            return rng.permutation(batch * places).astype(np.int32).reshape(batch, places)

        compressed = table((tokens - block) // stride + 1)
        # The pages of the selection are shared by the rows, in other orders.
        selected = np.stack([rng.permutation(tokens // page) for _ in range(batch)])
        mindspore_nsa.nsa_decode(
            _half(rng, batch, 1, heads, dim),
            ms.Tensor(rng.random((batch, 1, 3, heads), np.float32)),
            *caches(compressed.size, page),
            *caches(tokens // page, page),
            *caches(batch, window),
            *(dim**-0.5, heads, block, stride, select, count, window),
            layout="BSND",
            block_table=ms.Tensor(selected.astype(np.int32)),
            cmp_block_table=ms.Tensor(compressed),
            actual_seq_kvlen=(tokens,) * batch,
            init_blocks=1,
            local_blocks=2,
        ).asnumpy()

    shape = f"B={batch} N1={heads} N2={kv_heads} D={dim} Dv={value_dim} l={block} s={stride}"
    shape += f" l'={select} cnt={count} window={window} one token of each row, float16"
    return call, (), shape


def _flash(gradient, heads=16, dim=128):
    def call(tokens):
        import mindspore as ms

        import mindspore_nsa

        rng = np.random.default_rng(7)
        qkv = [_half(rng, 1, heads, tokens, dim) for _ in range(3)]

        def forward(q, k, v):
            out = mindspore_nsa.flash_attention_score(
                *(q, k, v, heads), input_layout="BNSD", sparse_mode=3, scalar_value=dim**-0.5
            )
            return out[0] if isinstance(out, tuple) else out

        if gradient:
            total = ms.grad(lambda q, k, v: forward(q, k, v).astype(ms.float32).sum(), (0, 1, 2))
            total(*qkv)[0].asnumpy()
        else:
            forward(*qkv).asnumpy()

    return call, (heads, dim), f"N={heads} D={dim} causal float16"


def _compress_attention(gradient, heads=64, kv_heads=4, dim=192, value_dim=128):
    block, stride, select, count = 32, 16, 64, 16

    def call(tokens):
        import mindspore as ms

        import mindspore_nsa

        rng = np.random.default_rng(7)
        rows = (tokens - block) // stride + 1
        q, k = _half(rng, tokens, heads, dim), _half(rng, rows, kv_heads, dim)
        v = _half(rng, rows, kv_heads, value_dim)

        def forward(q, k, v):
            return mindspore_nsa.nsa_compress_attention(
                *(q, k, v, dim**-0.5, heads, block, stride, select, count),
                actual_seq_qlen=(tokens,),
                causal=True,
                init_blocks=1,
                local_blocks=2,
                importance="overlap",
            )[0]

        if gradient:
            total = ms.grad(lambda q, k, v: forward(q, k, v).astype(ms.float32).sum(), (0, 1, 2))
            total(q, k, v)[0].asnumpy()
        else:
            forward(q, k, v).asnumpy()

    sizes = (heads, kv_heads, dim, value_dim, block, stride, select, count)
    shape = f"N1={heads} N2={kv_heads} D={dim} Dv={value_dim} l={block} s={stride}"
    shape += f" l'={select} cnt={count} causal float16"
    return call, sizes, shape


def _selected(gradient, heads=64, kv_heads=4, dim=192, value_dim=128, select=64, count=16):
    def call(tokens):
        import mindspore as ms

        import mindspore_nsa

        rng = np.random.default_rng(7)
        qkv = [
            _half(rng, tokens, heads, dim),
            _half(rng, tokens, kv_heads, dim),
            _half(rng, tokens, kv_heads, value_dim),
        ]
        # Blocks that a query sees, drawn without preference; -1 where there are not enough.
        blocks = -(-tokens // select)
        order = rng.random((tokens, kv_heads, max(blocks, count)), np.float32)
        unseen = np.arange(order.shape[-1]) > np.arange(tokens)[:, None] // select
        order += unseen[:, None]
        chosen = np.argsort(order, axis=-1)[..., :count].astype(np.int32)
        chosen[np.take_along_axis(order, chosen, axis=-1) >= 1] = -1
        indices = ms.Tensor(chosen)

        def forward(q, k, v):
            return mindspore_nsa.nsa_selected_attention(
                *(q, k, v, indices, dim**-0.5, heads, select, count),
                actual_seq_qlen=(tokens,),
                actual_seq_kvlen=(tokens,),
                causal=True,
            )[0]

        if gradient:
            total = ms.grad(lambda q, k, v: forward(q, k, v).astype(ms.float32).sum(), (0, 1, 2))
            total(*qkv)[0].asnumpy()
        else:
            forward(*qkv).asnumpy()

    sizes = (heads, kv_heads, dim, value_dim, select, count)
    shape = (
        f"N1={heads} N2={kv_heads} D={dim} Dv={value_dim} l'={select} cnt={count} causal float16"
    )
    return call, sizes, shape


def cases(quick=False):
    """Those whose operator has a kernel."""
    from mindspore_nsa import _native

    # Below, the start of a launch hides what a core is given.
    sizes = ((6144, 8192), (16384,)) if quick else ((8192, 16384), (8192, 16384, 65536))
    # Executing attention takes the twin longer by the square.
    flash_sizes = ((256, 512), (1024,)) if quick else ((512, 1024), (1024, 4096, 8192))
    attention_sizes = ((512, 1024), (2048,)) if quick else ((1024, 2048), (2048, 4096, 8192))
    selected_sizes = ((256, 512), (1024,)) if quick else ((512, 1024), (1024, 4096, 8192))
    # Name, operator, its name there, call with its sizes and shape, tokens that are executed and
    # asked for. The tiling of a call is asked by that name, but for the one named here.
    tilings = {"compress_attention_backward": "nsa_compress_attention_grad"}
    found = (
        ("compress_forward", "NsaCompress", "nsa_compress", _compress(False), sizes),
        ("compress_backward", "NsaCompressGrad", "nsa_compress_grad", _compress(True), sizes),
        (
            *("compress_with_cache", "NsaCompressWithCache", "nsa_compress_with_cache"),
            *(_compress_with_cache(), ((8, 64), (8, 64))),
        ),
        (
            *("compress_attention_forward", "NsaCompressAttention", "nsa_compress_attention"),
            *(_compress_attention(False), attention_sizes),
        ),
        (
            *("compress_attention_backward", "FlashAttentionScoreGrad"),
            *("flash_attention_score_grad", _compress_attention(True), attention_sizes),
        ),
        (
            *("selected_forward", "NsaSelectedAttention", "nsa_selected_attention"),
            *(_selected(False), selected_sizes),
        ),
        (
            *("selected_backward", "NsaSelectedAttentionGrad", "nsa_selected_attention_grad"),
            *(_selected(True), selected_sizes),
        ),
        (
            *("selected_infer", "NsaSelectedAttentionInfer", "nsa_selected_attention_infer"),
            *(_selected_infer(8), ((4096, 65536), (4096, 65536))),
        ),
        (
            *("compress_infer", "NsaCompressAttentionInfer", "nsa_compress_attention_infer"),
            *(_compress_infer(8), ((4096, 65536), (4096, 65536))),
        ),
        (*("decode", "NsaDecode", "nsa_decode"), *(_decode(8), ((4096, 65536), (4096, 65536)))),
        (
            *("flash_forward", "FlashAttentionScore", "flash_attention_score"),
            *(_flash(False), flash_sizes),
        ),
        (
            *("flash_backward", "FlashAttentionScoreGrad", "flash_attention_score_grad"),
            *(_flash(True), flash_sizes),
        ),
    )
    return [
        ModelledCase(
            *(name, operator, tilings.get(name, kernel)),
            *(call, fixed, executed, asked, shape),
        )
        for name, operator, kernel, (call, fixed, shape), (executed, asked) in found
        if operator in _native.ascend_operators()
    ]


def _execute(case, tokens, chip, trace=None):
    import mindspore_nsa
    from mindspore_nsa import twin

    with mindspore_nsa.target("ascend_twin"), twin.clock(chip, trace=trace) as timed:
        case.call(tokens)
    launches = [launch for launch in timed() if launch["kernel"] == case.kernel]
    assert len(launches) == 1, (case.name, [launch["kernel"] for launch in timed()])
    return launches[0]


def _beyond(work, a, b):
    """Where a line through what two executed amounts of work gave is at the third."""
    return b + (work[2] - work[1]) / (work[1] - work[0]) * (b - a)


def rows_of(case, chip, trace=None):
    """A `Row` for each size that is asked for."""
    sizes = sorted({*case.executed})
    launches = {n: _execute(case, n, chip, trace if n == sizes[-1] else None) for n in sizes}
    first, last = sizes[0], sizes[-1]
    beyond_them = [n for n in case.asked if n not in launches]
    work = {n: case.work(n, chip) for n in (*sizes, *beyond_them)} if beyond_them else {}
    found = []
    for tokens in case.asked:
        if tokens in launches:
            time, bounds = launches[tokens]["microseconds"], launches[tokens]["bound"]
        else:
            ends = [launches[n] for n in (first, last)]
            most, total = zip(*(work[n] for n in (first, last, tokens)), strict=True)
            time = _beyond(most, *(end["microseconds"] for end in ends))
            bounds = {
                name: _beyond(total, *(end["bound"][name] for end in ends))
                for name in ends[0]["bound"]
            }
        name, bound = max(bounds.items(), key=lambda item: item[1])
        found.append(
            Row(
                *(case.name, tokens, time, bound, name, time / bound),
                tokens not in launches,
                case.shape,
            )
        )
    return found


def _line(row):
    mark = "extrapolated" if row.extrapolated else ""
    return (
        f"{row.case:<26} {row.tokens:>7} {row.microseconds:>11.1f} {row.bound_microseconds:>11.1f} "
        f"{row.bound_by:<7} {row.ratio:>6.2f}  {mark:<12}  {row.shape}"
    )


def select(names, quick=False):
    """The cases whose names begin with one of the texts; all of them for none."""
    found = cases(quick)
    for name in names or ():
        if not any(case.name.startswith(name) for case in found):
            known = ", ".join(case.name for case in found)
            raise ValueError(f"no modelled case begins with {name!r}; there are {known}")
    return [case for case in found if not names or case.name.startswith(tuple(names))]


def run(found, chip="910B1", csv_path=None, png=None, executed=False, out=sys.stdout):
    """Print the table, of executions alone if so wished; returns its rows."""
    if executed:
        found = [replace(case, executed=case.asked) for case in found]
    if png:
        from . import plot

        plot.require()
    print(f"modelled time on Ascend{chip}, launch apart; nothing here was measured on it", file=out)
    heads = ("case", "tokens", "modelled us", "bound us", "bound", "ratio")
    print("{:<26} {:>7} {:>11} {:>11} {:<7} {:>6}".format(*heads), file=out)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder, "trace.json")
        for case in found:
            # The picture is of the first case.
            wanted = trace if png and not rows else None
            for row in rows_of(case, chip, wanted):
                rows.append(row)
                print(_line(row), file=out, flush=True)
        if png:
            plot.write_timeline(png, json.loads(trace.read_text()))
    if csv_path:
        with open(csv_path, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([field.name for field in fields(Row)] + ["chip"])
            writer.writerows([*astuple(row), chip] for row in rows)
    return rows
