"""The calls whose modelled time the benchmarks tell, and their sizes.

Each function gives `call(tokens)`, the sizes that tiling is asked of, and the text of the shapes.
"""

import numpy as np


def half(rng, *shape):
    import mindspore as ms

    return ms.Tensor(rng.standard_normal(shape, np.float32).astype(np.float16))


def compress(gradient, heads=4, dim=128, block=32, stride=16):
    def call(tokens):
        import mindspore as ms

        import mindspore_nsa

        rng = np.random.default_rng(7)
        x, w = half(rng, tokens, heads, dim), half(rng, block, heads)

        def forward(x, w):
            return mindspore_nsa.nsa_compress(x, w, block, stride, actual_seq_len=(tokens,))

        if gradient:
            ms.grad(lambda x, w: forward(x, w).astype(ms.float32).sum(), (0, 1))(x, w)[0].asnumpy()
        else:
            forward(x, w).asnumpy()

    return call, (heads, dim, block, stride), f"N={heads} D={dim} l={block} s={stride} float16"


def compress_with_cache(heads=4, dim=128, block=32, stride=16):
    def call(tokens):
        import mindspore as ms

        import mindspore_nsa

        rng = np.random.default_rng(7)
        x, w = half(rng, tokens * block, heads, dim), half(rng, block, heads)
        mindspore_nsa.nsa_compress_with_cache(
            *(x, w, tuple(range(tokens)), block, stride, block),
            actual_seq_len=(block,) * tokens,
            cache=ms.Tensor(np.zeros((tokens, heads, dim), np.float16)),
        ).asnumpy()

    return call, (), f"new tokens, each fills a window; N={heads} D={dim} l={block} float16"


def selected_infer(batch, heads=64, kv_heads=4, dim=192, value_dim=128, select=64, count=16):
    def call(tokens):
        import mindspore as ms

        import mindspore_nsa

        rng = np.random.default_rng(7)
        places = tokens // select
        # A short row gives all its blocks, then -1.
        blocks = np.full((batch * kv_heads, count), -1, np.int32)
        for chosen in blocks:
            chosen[:places] = rng.permutation(places)[:count]
        blocks = blocks.reshape(batch, 1, kv_heads, count)
        # Selected blocks have pages of their own; the kernel reads no others.
        table, pages = np.zeros((batch, places), np.int32), 0
        for row, chosen in zip(table, blocks, strict=True):
            chosen = np.unique(chosen[chosen >= 0])
            row[chosen] = pages + np.arange(len(chosen))
            pages += len(chosen)
        caches = [half(rng, pages, select, kv_heads, d) for d in (dim, value_dim)]
        mindspore_nsa.nsa_selected_attention_infer(
            *(half(rng, batch, 1, heads, dim), *caches, ms.Tensor(blocks), dim**-0.5),
            *(heads, kv_heads, select, count, select),
            block_table=ms.Tensor(table),
            actual_seq_kvlen=(tokens,) * batch,
        ).asnumpy()

    shape = f"B={batch} N1={heads} N2={kv_heads} D={dim} Dv={value_dim} l'={select} cnt={count}"
    return call, (), shape + " one token of each row, float16"


def _tokens(new):
    return "one token of each row" if new == 1 else f"{new} tokens of each row"


def compress_infer(batch, new=1, heads=64, kv_heads=4, dim=192, value_dim=128, page=128, count=16):
    block, stride, select = 32, 16, 64

    def call(tokens):
        import mindspore as ms

        import mindspore_nsa

        rng = np.random.default_rng(7)
        compressed = (tokens - block) // stride + 1
        places = -(-compressed // page)
        table = rng.permutation(batch * places).astype(np.int32).reshape(batch, places)
        caches = [half(rng, batch * places, page, kv_heads, d) for d in (dim, value_dim)]
        mindspore_nsa.nsa_compress_attention_infer(
            *(half(rng, batch, new, heads, dim), *caches, dim**-0.5),
            *(heads, kv_heads, select, count, page, block, stride),
            layout="BSND",
            block_table=ms.Tensor(table),
            actual_cmp_seq_kvlen=(compressed,) * batch,
            actual_sel_seq_kvlen=(tokens,) * batch,
            init_blocks=1,
            local_blocks=2,
        )[0].asnumpy()

    shape = f"B={batch} N1={heads} N2={kv_heads} D={dim} Dv={value_dim} l={block} s={stride}"
    return call, (), shape + f" l'={select} cnt={count} {_tokens(new)}, float16"


def decode(batch, new=1, heads=64, kv_heads=4, dim=192, value_dim=128, page=128, count=16):
    block, stride, select, window = 32, 16, 64, 512

    def call(tokens):
        import mindspore as ms

        import mindspore_nsa

        rng = np.random.default_rng(7)

        def caches(pages, page):
            return [half(rng, pages, page, kv_heads, d) for d in (dim, value_dim)]

        def table(tokens):
            places = -(-tokens // page)
            return rng.permutation(batch * places).astype(np.int32).reshape(batch, places)

        compressed = table((tokens - block) // stride + 1)
        # The pages of the selection are shared by the rows, in other orders.
        selected = np.stack([rng.permutation(tokens // page) for _ in range(batch)])
        mindspore_nsa.nsa_decode(
            half(rng, batch, new, heads, dim),
            ms.Tensor(rng.random((batch, new, 3, heads), np.float32)),
            *caches(compressed.size, page),
            *caches(tokens // page, page),
            *caches(batch, window + new - 1),
            *(dim**-0.5, heads, block, stride, select, count, window),
            layout="BSND",
            block_table=ms.Tensor(selected.astype(np.int32)),
            cmp_block_table=ms.Tensor(compressed),
            actual_seq_kvlen=(tokens,) * batch,
            init_blocks=1,
            local_blocks=2,
        ).asnumpy()

    shape = f"B={batch} N1={heads} N2={kv_heads} D={dim} Dv={value_dim} l={block} s={stride}"
    shape += f" l'={select} cnt={count} window={window} {_tokens(new)}, float16"
    return call, (), shape


def cache_step(batch, heads=64, kv_heads=4, dim=192, value_dim=128, count=16):
    """The step of a layer: it has no function of its own."""
    from mindspore_nsa.nn import NativeSparseAttention, NSAConfig
    from mindspore_nsa.nn.cache import AttentionCache
    from mindspore_nsa.nn.cache_state import OTHERS, SELECTED, state_of

    # A narrow layer, whose projections take little time beside it.
    config = NSAConfig(64, heads, kv_heads, dim, value_dim, select_block_count=count)

    def call(tokens):
        import mindspore as ms

        rng = np.random.default_rng(7)
        layer = NativeSparseAttention(config)
        cache = layer.new_cache(batch, tokens, "float16")
        # The new tokens complete a window. What is selected may be 0, which choices do not hang on.
        state = state_of(layer.cache_made_for[0], ms.float16, [tokens - 1] * batch)
        others = np.empty(cache[OTHERS].shape, np.float16)
        for row in others:
            row[:] = rng.standard_normal(row.shape, np.float32)
        cache = AttentionCache((state, cache[SELECTED], ms.Tensor(others)))
        x = half(rng, batch, 1, config.hidden_size)
        layer(x, cache=cache).asnumpy()

    shape = f"B={batch} N1={heads} N2={kv_heads} D={dim} Dv={value_dim} "
    shape += f"l={config.compress_block_size} s={config.compress_stride} "
    shape += f"l'={config.select_block_size} cnt={count} window={config.window_size}"
    return call, (), shape + " one token of each row, float16"


def flash(gradient, heads=16, dim=128):
    def call(tokens):
        import mindspore as ms

        import mindspore_nsa

        rng = np.random.default_rng(7)
        qkv = [half(rng, 1, heads, tokens, dim) for _ in range(3)]

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


def compress_attention(gradient, heads=64, kv_heads=4, dim=192, value_dim=128):
    block, stride, select, count = 32, 16, 64, 16

    def call(tokens):
        import mindspore as ms

        import mindspore_nsa

        rng = np.random.default_rng(7)
        rows = (tokens - block) // stride + 1
        q, k = half(rng, tokens, heads, dim), half(rng, rows, kv_heads, dim)
        v = half(rng, rows, kv_heads, value_dim)

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


def selected(gradient, heads=64, kv_heads=4, dim=192, value_dim=128, select=64, count=16):
    def call(tokens):
        import mindspore as ms

        import mindspore_nsa

        rng = np.random.default_rng(7)
        qkv = [
            half(rng, tokens, heads, dim),
            half(rng, tokens, kv_heads, dim),
            half(rng, tokens, kv_heads, value_dim),
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
