"""Masks, sparse modes, position bias and prefix of FlashAttentionScore."""

import pytest

BATCHED = "FlashAttentionScore"
PACKED = "FlashAttentionScore TND"
GRADS = {BATCHED: "FlashAttentionScoreGrad", PACKED: "FlashAttentionScoreGrad TND"}


@pytest.fixture
def bare(good):
    """A call without mask, prefix and position bias, in the default mode."""

    def build(name):
        call = good(name).but(attn_mask=None, real_shift=None, sparse_mode=0)
        return call.but(prefix=None) if "prefix" in call.inputs else call

    return build


@pytest.mark.parametrize("mode", [-1, 9])
@pytest.mark.parametrize("name", [BATCHED, PACKED])
def test_mode_range(bare, name, mode):
    bare(name).but(sparse_mode=mode).fails(ValueError, "sparse_mode", "[0, 8]", mode)


def test_modes_without_a_mask(bare):
    for mode in (0, 2, 3, 4):
        bare(BATCHED).but(sparse_mode=mode).infer()
        bare(PACKED).but(sparse_mode=mode).infer()
    for name in (BATCHED, PACKED):
        bare(name).but(sparse_mode=1).fails(ValueError, "attn_mask", "sparse_mode 1", "None")
    for mode in (7, 8):
        bare(PACKED).but(sparse_mode=mode).infer()
        bare(BATCHED).but(sparse_mode=mode).fails(ValueError, "sparse_mode", f"{mode} with 'BNSD'")
    for mode in (5, 6):
        prefix = bare(BATCHED).but(sparse_mode=mode)
        prefix.fails(ValueError, "prefix", "sparse_mode 5 and 6", f"None with sparse_mode {mode}")
        prefix.listed("prefix", (0, 1, 40)).infer()
    packed = bare(PACKED).but(sparse_mode=5).listed("prefix", (0, 1))
    packed.fails(ValueError, "sparse_mode", "'TND'", 5)
    packed.but(sparse_mode=6).infer()
    packed.but(sparse_mode=6).listed("prefix", (0,)).fails(ValueError, "prefix", (2,), (1,))


def test_prefix_of_a_segment(bare):
    """It is bounded by the keys of its own segment."""
    call = bare(PACKED).but(sparse_mode=6)
    lengths = (30, 50)
    call.listed("prefix", lengths).infer()
    for b, keys in enumerate(lengths):
        wrong = [0] * len(lengths)
        wrong[b] = keys + 1
        wrong = call.listed("prefix", tuple(wrong))
        wrong.fails(ValueError, "prefix", [0, keys], keys + 1, f"index {b}")
        wrong.blind().infer()


@pytest.mark.parametrize("mode", [0, 1, 5])
@pytest.mark.parametrize("shape", [(3, 4, 24, 40), (3, 1, 24, 40), (1, 1, 24, 40), (24, 40)])
def test_batched_masks(good, mode, shape):
    good(BATCHED).but(sparse_mode=mode).shaped("attn_mask", shape).infer()


@pytest.mark.parametrize("mode", [0, 1, 5])
@pytest.mark.parametrize(
    "shape",
    [(1, 4, 24, 40), (2, 1, 24, 40), (3, 2, 24, 40), (3, 24, 40), (24, 41), (40, 24), (2048, 2048)],
)
def test_wrong_batched_masks(good, mode, shape):
    call = good(BATCHED).but(sparse_mode=mode).shaped("attn_mask", shape)
    call.fails(ValueError, "attn_mask", (3, 4, 24, 40), shape)


@pytest.mark.parametrize("mode", [0, 1])
def test_packed_masks(good, mode):
    call = good(PACKED).but(sparse_mode=mode)
    call.shaped("attn_mask", (28, 50)).infer()
    call.shaped("attn_mask", (48, 80)).infer()
    for shape in ((28, 80), (48, 50), (29, 50), (2048, 2048)):
        wrong = call.shaped("attn_mask", shape)
        wrong.fails(ValueError, "attn_mask", (28, 50), (48, 80), shape)
        wrong.blind().infer()
    call.shaped("attn_mask", (1, 1, 28, 50)).fails(ValueError, "attn_mask", (1, 1, 28, 50))


@pytest.mark.parametrize("name", [BATCHED, PACKED])
@pytest.mark.parametrize("mode", [2, 3, 4, 6, 7, 8])
def test_compressed_masks(good, bare, name, mode):
    packed = name == PACKED
    if mode > 6 and not packed:
        return
    call = bare(name).but(sparse_mode=mode)
    if mode == 6:
        call = call.listed("prefix", (0, 1) if packed else (0, 1, 40))
    right = (3072, 2048) if mode == 6 else (2048, 2048)
    for dtype in ("bool", "uint8"):
        call.but(attn_mask=(dtype, right)).infer()
    wrong = (2048, 2048) if mode == 6 else (24, 40)
    for shape in (wrong, (1, *right), (1, 1, *right)):
        spoiled = call.but(attn_mask=("bool", shape))
        spoiled.fails(ValueError, "attn_mask", right, f"sparse_mode {mode}", shape)
    call.but(attn_mask=("float32", right)).fails(TypeError, "attn_mask", "bool or uint8", "float32")


def test_prefix(good):
    call = good(BATCHED)
    call.listed("prefix", (0, 40, 40)).infer()
    call.listed("prefix", (0, 41, 40)).fails(ValueError, "prefix", [0, 40], 41, "index 1")
    call.listed("prefix", (0, 4, -1)).fails(ValueError, "prefix", [0, 40], -1, "index 2")
    call.listed("prefix", (0, 4)).fails(ValueError, "prefix", (3,), (2,))
    call.typed("prefix", "float32").fails(TypeError, "prefix", "int32 or int64", "float32")
    # Other modes do not read it, but its form is still checked.
    unused = call.but(sparse_mode=0)
    unused.listed("prefix", (99, 99, 99)).infer()
    unused.listed("prefix", (99, 99)).fails(ValueError, "prefix", (3,), (2,))


@pytest.mark.parametrize("pse_type", [-1, 4])
def test_pse_type_range(good, pse_type):
    good(BATCHED).but(pse_type=pse_type).fails(ValueError, "pse_type", "[0, 3]", pse_type)


@pytest.mark.parametrize("pse_type", [0, 1])
@pytest.mark.parametrize("shape", [(3, 4, 24, 40), (1, 4, 24, 40), (3, 4, 1, 40), (1, 4, 1, 40)])
def test_batched_bias(good, pse_type, shape):
    for name in (BATCHED, GRADS[BATCHED]):
        call = good(name).but(pse_type=pse_type).shaped("real_shift", shape)
        outputs = call.shapes()
        if name != BATCHED:
            assert outputs[3] == shape
            assert call.but(pse_grad=False).shapes()[3] == (1,)


@pytest.mark.parametrize(
    "shape",
    [(2, 4, 24, 40), (3, 2, 24, 40), (3, 4, 23, 40), (3, 4, 24, 1), (24, 40), (3, 1, 24, 40)],
)
def test_wrong_batched_bias(good, shape):
    good(BATCHED).shaped("real_shift", shape).fails(ValueError, "real_shift", (3, 4, 24, 40), shape)


def test_bias_has_the_dtype_of_query(good):
    for name in (BATCHED, PACKED):
        good(name).typed("real_shift", "float32").fails(
            TypeError, "real_shift", "query", "float16", "float32"
        )


def test_packed_bias(good):
    for name in (PACKED, GRADS[PACKED]):
        row = good(name).shaped("real_shift", (320,))
        outputs = row.shapes()
        if name != PACKED:
            assert outputs[3] == (320,)
        for shape in ((8001,), (7999,), (0,)):
            wrong = good(name).shaped("real_shift", shape)
            wrong.fails(ValueError, "real_shift", 8000, 320, shape)
            wrong.blind().infer()
        good(name).shaped("real_shift", (4, 28, 50)).fails(
            ValueError, "real_shift", "flat", (4, 28, 50)
        )


def square(call, name):
    """Equal query and key lengths, as the compressed alibi form asks."""
    if name == PACKED:
        call = call.but(key=("float16", (48, 2, 64)), value=("float16", (48, 2, 48)))
        return call.listed("actual_seq_kvlen", (20, 48))
    return call.but(key=("float16", (3, 2, 24, 64)), value=("float16", (3, 2, 24, 48)))


@pytest.mark.parametrize("name", [BATCHED, PACKED])
def test_compressed_alibi(bare, name):
    keys, batch = (28, 2) if name == PACKED else (24, 3)
    call = square(bare(name), name).but(sparse_mode=3, real_shift=("float16", (1, 4, 1024, keys)))
    for mode in (2, 3):
        call.but(sparse_mode=mode).infer()
        call.but(sparse_mode=mode).shaped("real_shift", (batch, 4, 1024, keys)).infer()
    for mode, changes in ((4, {}), (0, {}), (0, {"next_tokens": 1})):
        call.but(sparse_mode=mode, **changes).fails(
            ValueError, "real_shift", "causal", (1, 4, 1024, keys), f"sparse_mode {mode}"
        )
    call.but(sparse_mode=0, next_tokens=0).infer()
    mask = ("bool", (keys, keys))
    call.but(sparse_mode=0, attn_mask=mask).infer()
    call.but(sparse_mode=1, attn_mask=mask).fails(ValueError, "real_shift", "sparse_mode 1")
    for shape in ((batch + 1, 4, 1024, keys), (1, 2, 1024, keys), (1, 4, 1023, keys)):
        call.shaped("real_shift", shape).fails(ValueError, "real_shift", shape)
    if name == PACKED:
        call.shaped("real_shift", (1, 4, 1024, 29)).fails(ValueError, "real_shift", (2, 4, 28))


def test_alibi_needs_equal_lengths(bare):
    call = bare(BATCHED).but(sparse_mode=3, real_shift=("float16", (1, 4, 1024, 40)))
    call.fails(ValueError, "real_shift", (1, 4, 1024, 40), "24 and 40")
    call = bare(PACKED).but(sparse_mode=3, real_shift=("float16", (1, 4, 1024, 50)))
    call.fails(ValueError, "real_shift", (1, 4, 1024, 50), "20 and 30")


@pytest.mark.parametrize("name", [BATCHED, PACKED])
def test_alibi_has_no_gradient(bare, name):
    keys = 28 if name == PACKED else 24
    grad = square(bare(GRADS[name]), name).but(sparse_mode=3)
    grad = grad.but(real_shift=("float16", (1, 4, 1024, keys)))
    grad.fails(ValueError, "real_shift", "gradient", (1, 4, 1024, keys))
    assert grad.but(pse_grad=False).shapes()[3] == (1,)


@pytest.mark.parametrize("pse_type", [2, 3])
def test_slopes_have_no_gradient(good, pse_type):
    grad = good("FlashAttentionScoreGrad").but(pse_type=pse_type, real_shift=("float32", (4,)))
    grad.fails(ValueError, "real_shift", "a position bias where its gradient", pse_type)
    assert grad.but(pse_grad=False).shapes()[3] == (1,)


def test_1024_queries_have_a_full_bias(bare):
    call = bare(GRADS[BATCHED]).but(
        query=("float16", (3, 4, 1024, 64)),
        dy=("float16", (3, 4, 1024, 48)),
        attention_in=("float16", (3, 4, 1024, 48)),
        softmax_max=("float32", (3, 4, 1024, 8)),
        softmax_sum=("float32", (3, 4, 1024, 8)),
        softmax_sum_grad=None,
        drop_mask=None,
        keep_prob=1.0,
        real_shift=("float16", (3, 4, 1024, 40)),
    )
    assert call.shapes()[3] == (3, 4, 1024, 40)


def test_dynamic_bias(good):
    grad = good("FlashAttentionScoreGrad")
    assert grad.shaped("real_shift", (-1, 4, -1, 40)).shapes()[3] == (-1, 4, -1, 40)
    assert grad.but(real_shift=("float16", None)).shapes()[3] == (-2,)
    assert grad.but(real_shift=("float16", None), pse_grad=0).shapes()[3] == (1,)


@pytest.mark.parametrize("pse_type", [2, 3])
@pytest.mark.parametrize("name", [BATCHED, PACKED])
def test_slopes(bare, name, pse_type):
    call = bare(name).but(pse_type=pse_type)
    batch = 2 if name == PACKED else 3
    call.fails(ValueError, "real_shift", "slopes", "None")
    for shape in ((4,), (batch, 4)):
        call.but(real_shift=("float32", shape)).infer()
        grad = bare(GRADS[name]).but(pse_type=pse_type, real_shift=("float32", shape), pse_grad=0)
        assert grad.shapes()[3] == (1,)
    call.but(real_shift=("float16", (4,))).fails(TypeError, "real_shift", "float32", "float16")
    for shape in ((3, 3), (1, 4), (8,), (2, 4, 1)):
        call.but(real_shift=("float32", shape)).fails(
            ValueError, "real_shift", (batch, 4), "pse_type 2 and 3", shape
        )


def test_bands_take_any_int(bare):
    for pre, following in ((0, 0), (-5, 7), (2**40, -(2**40)), (2**63 - 1, -(2**63))):
        bare(BATCHED).but(sparse_mode=4, pre_tokens=pre, next_tokens=following).infer()


def test_start_positions(bare):
    bare(BATCHED).listed("q_start_idx", (-3,)).listed("kv_start_idx", (2**40, 0, 1)).infer()
    bare(PACKED).listed("q_start_idx", (4, 5)).infer()
    for name in ("q_start_idx", "kv_start_idx"):
        for value in (2**62, -(2**62)):
            call = bare(BATCHED).listed(name, (value,))
            call.fails(ValueError, name, value, "index 0")
        for call, batch in ((bare(BATCHED), 3), (bare(PACKED), 2)):
            call.listed(name, (1,) * 4).fails(ValueError, name, (batch,), (4,))
            call.listed(name, ()).fails(ValueError, name, (batch,), (0,))
