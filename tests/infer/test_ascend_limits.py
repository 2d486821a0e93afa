"""Every limit of Ascend: the size at the limit passes, the next one fails there and only there."""

import re

import pytest

from mindspore_nsa import _native


def outside(call, argument, limit, *got):
    """The call is right on the CPU and beyond a limit on Ascend."""
    call.infer("cpu")
    call.fails(ValueError, argument, limit, "on Ascend", *got, target="ascend")


def test_right_calls_of_the_nsa_operators_are_within_the_limits(good, call_name):
    call = good(call_name)
    assert call.infer("ascend") == call.infer("cpu")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_dtypes(good, call_name, dtype):
    call = good(call_name)
    floats = [n for n in call.names if call.inputs[n] and call.inputs[n][0] == "float16"]
    for name in floats:
        call = call.typed(name, dtype)
    if dtype == "float32" and floats and not call.op.startswith("Flash"):
        first = next(name for name in ("input", "query", "query_index") if name in floats)
        call.fails(TypeError, first, "float16 or bfloat16", "on Ascend", dtype, target="ascend")
    else:
        assert call.infer("ascend") == call.infer("cpu")


@pytest.fixture
def compress(good):
    def build(name="NsaCompress", heads=8, dim=128, block=32, stride=16):
        call = good(name).but(compress_block_size=block, compress_stride=stride)
        rows = _native.compressed_rows((272,), block, stride)
        if name == "NsaCompressGrad":
            call = call.but(output_grad=("float16", (rows, heads, dim)))
        else:
            call = call.but(num_windows=rows)
        return call.but(
            input=("float16", (272, heads, dim)), weight=("float16", (block, heads))
        ).listed("actual_seq_len", (272,))

    return build


@pytest.mark.parametrize("name", ["NsaCompress", "NsaCompressGrad"])
def test_compress(compress, name):
    for right in (
        {"block": 16, "stride": 16},
        {"block": 128, "stride": 128},
        {"heads": 4096},
        {"heads": 1},
        {"dim": 256},
        {"dim": 16},
    ):
        compress(name, **right).infer("ascend")
    outside(compress(name, block=8, stride=8), "compress_block_size", "at least 16", 8)
    outside(compress(name, block=144), "compress_block_size", "at most 128", 144)
    outside(compress(name, block=40), "compress_block_size", "a multiple of 16", 40)
    outside(compress(name, stride=8), "compress_stride", "at least 16", 8)
    outside(compress(name, stride=24), "compress_stride", "a multiple of 16", 24)
    outside(compress(name, heads=4097), "N of input", "at most 4096", 4097)
    outside(compress(name, dim=272), "D of input", "at most 256", 272)
    outside(compress(name, dim=8), "D of input", "at least 16", 8)
    outside(compress(name, dim=40), "D of input", "a multiple of 16", 40)


@pytest.fixture
def attention(good):
    """A causal NsaCompressAttention with one segment, wide enough for 32 blocks of any size."""

    def build(heads=(8, 2), d=64, dv=48, block=32, stride=16, select=64, count=2, keys=255):
        n1, n2 = heads
        call = good("NsaCompressAttention").but(
            query=("float16", (4096, n1, d)),
            key=("float16", (keys, n2, d)),
            value=("float16", (keys, n2, dv)),
            topk_mask=None,
            atten_mask=None,
            actual_sel_seq_kvlen=None,
            q_offset=None,
            head_num=n1,
            compress_block_size=block,
            compress_stride=stride,
            select_block_size=select,
            select_block_count=count,
            init_blocks=0,
            local_blocks=0,
        )
        return call.listed("actual_seq_qlen", (4096,)).listed("actual_cmp_seq_kvlen", (keys,))

    return build


def test_compress_attention(attention):
    for right in (
        {"block": 128, "stride": 64, "select": 128},
        {"block": 144, "stride": 144, "select": 288},
        {"block": 8, "stride": 8, "select": 8},
        {"block": 24, "stride": 3, "select": 192},
        {"count": 128},
        {"heads": (128, 1)},
        {"d": 48},
        {"d": 256, "dv": 256},
        {"keys": 14001},
        {"d": 64, "dv": 80},
        {"heads": (2**16, 2**16)},
    ):
        attention(**right).infer("ascend")
    outside(
        attention(block=16, stride=2, select=130), "select_block_size", "64 compress_stride", 130
    )
    outside(attention(count=129), "select_block_count", "at most 128", 129)
    outside(attention(heads=(129, 1)), "N1 / N2", "at most 128", 129)
    outside(attention(d=8, dv=8), "D of query", "at least 16", 8)
    outside(attention(d=272), "D of query", "at most 256", 272)
    outside(attention(dv=8), "Dv of value", "at least 16", 8)
    outside(attention(d=72), "D of query", "a multiple of 16", 72)
    outside(attention(d=64, dv=40), "Dv of value", "a multiple of 16", 40)
    outside(attention(dv=272), "Dv of value", "at most 256", 272)
    outside(attention(heads=(2**16 + 1, 2**16 + 1)), "N1 of query", "at most 65536", 2**16 + 1)


@pytest.fixture
def infer(good):
    def build(heads=(8, 2), d=64, dv=48, select=64, count=4, stride=16):
        n1, n2 = heads
        return good("NsaCompressAttentionInfer").but(
            query=("float16", (5, n1, d)),
            key=("float16", (8, 16, n2, d)),
            value=("float16", (8, 16, n2, dv)),
            actual_sel_seq_kvlen=None,
            actual_seq_qlen=None,
            actual_cmp_seq_kvlen=("int64", (5,), (3, 4, 5, 6, 7)),
            block_table=("int32", (5, 3)),
            head_num=n1,
            key_value_head_num=n2,
            compress_block_size=stride,
            compress_stride=stride,
            select_block_size=select,
            select_block_count=count,
            init_blocks=0,
            local_blocks=0,
        )

    return build


def test_compress_attention_infer(infer):
    for right in (
        {"select": 64 * 16},
        {"select": 192, "stride": 3},
        {"count": 128},
        {"heads": (128, 1)},
        {"heads": (2**17, 2**17)},
        {"d": 256, "dv": 16},
    ):
        infer(**right).infer("ascend")
    outside(infer(stride=2, select=130), "select_block_size", "64 compress_stride", 130)
    outside(infer(count=129), "select_block_count", "at most 128", 129)
    outside(infer(heads=(129, 1)), "N1 / N2", "at most 128", 129)
    outside(infer(d=8), "D of query", "at least 16", 8)
    outside(infer(d=272), "D of query", "at most 256", 272)
    outside(infer(d=72), "D of query", "a multiple of 16", 72)
    outside(infer(dv=40), "Dv of value", "a multiple of 16", 40)
    outside(infer(dv=272), "Dv of value", "at most 256", 272)


def test_decode(good):
    call = good("NsaDecode")
    count = call.but(select_block_count=128)
    count.infer("ascend")
    outside(count.but(select_block_count=129), "select_block_count", "at most 128", 129)
    stride = call.attrs["compress_stride"]
    wide = call.but(select_block_size=64 * stride)
    wide.infer("ascend")
    outside(wide.but(select_block_size=65 * stride), "select_block_size", "64 compress_stride")
    outside(sized(call, 24), "D of query", "a multiple of 16", 24)
    outside(sized(call, 272), "D of query", "at most 256", 272)


def sized(call, dim):
    """Query and caches with another head size."""
    floats = [n for n in call.names if n == "query" or n.startswith(("key_", "value_"))]
    return call.but(**{n: (call.inputs[n][0], (*call.inputs[n][1][:-1], dim)) for n in floats})


def test_more_blocks_may_be_asked_for_than_there_are(attention):
    call = attention(count=32).listed("actual_seq_qlen", (64, 4096))
    call.listed("actual_cmp_seq_kvlen", (3, 255)).infer("ascend")


@pytest.fixture
def selected(good):
    def build(name, t1=48, t2=300, heads=(8, 2), d=64, dv=48, select=64, count=4, ends=None):
        n1, n2 = heads
        call = good(name).but(
            query=("float16", (t1, n1, d)),
            key=("float16", (t2, n2, d)),
            value=("float16", (t2, n2, dv)),
            topk_indices=("int32", (t1, n2, count)),
            q_offset=None,
            head_num=n1,
            select_block_size=select,
            select_block_count=count,
        )
        if "softmax_max" in call.names:
            for saved in ("softmax_max", "softmax_sum", "softmax_sum_grad"):
                call = call.shaped(saved, (t1, n1, 8))
            for saved in ("attention_out", "attention_out_grad"):
                call = call.shaped(saved, (t1, n1, dv))
        ends_q, ends_kv = ends or ((t1,), (t2,))
        return call.listed("actual_seq_qlen", ends_q).listed("actual_seq_kvlen", ends_kv)

    return build


@pytest.mark.parametrize("name", ["NsaSelectedAttention", "NsaSelectedAttentionGrad"])
def test_selected(selected, name):
    longest = 2**28
    for right in (
        {"t1": 2**30, "t2": longest},
        {"t2": 3 * longest, "ends": ((16, 32, 48), (longest, 2 * longest, 3 * longest))},
        {"heads": (2**14, 2**14)},
        {"heads": (2**14, 128)},
        {"heads": (128, 1)},
        {"d": 256, "dv": 256},
        {"d": 64, "dv": 80},
        {"select": 16},
        {"select": 128},
        {"count": 32},
        {"count": 1},
    ):
        selected(name, **right).infer("ascend")
    outside(selected(name, t2=longest + 1), "longest segment of keys", longest, longest + 1)
    outside(selected(name, heads=(2**14 + 1,) * 2), "N1 of query", "at most 16384", 2**14 + 1)
    outside(selected(name, heads=(129, 1)), "N1 / N2", "at most 128", 129)
    outside(selected(name, select=8), "select_block_size", "at least 16", 8)
    outside(selected(name, select=144), "select_block_size", "at most 128", 144)
    outside(selected(name, select=72), "select_block_size", "a multiple of 16", 72)
    outside(selected(name, count=33), "select_block_count", "at most 32", 33)
    outside(selected(name, d=272), "D of query", "at most 256", 272)
    outside(selected(name, d=8, dv=8), "D of query", "at least 16", 8)
    outside(selected(name, dv=8), "Dv of value", "at least 16", 8)
    outside(selected(name, d=72), "D of query", "a multiple of 16", 72)
    outside(selected(name, dv=40), "Dv of value", "a multiple of 16", 40)


@pytest.fixture
def flash(good):
    def build(batch=1, heads=(4, 2), lengths=(24, 40), d=64, dv=48, **changes):
        n1, n2 = heads
        call = good("FlashAttentionScore")
        for name in call.names:
            call.inputs[name] = None
        call.attrs = {"head_num": n1, "input_layout": "BNSD"}
        return call.but(
            query=("float16", (batch, n1, lengths[0], d)),
            key=("float16", (batch, n2, lengths[1], d)),
            value=("float16", (batch, n2, lengths[1], dv)),
            **changes,
        )

    return build


def test_flash(flash):
    for right in (
        {"batch": 2**22},
        {"heads": (2**16, 1)},
        {"lengths": (2**21, 1)},
        {"lengths": (1, 2**21)},
        {"d": 512, "dv": 512},
        {"d": 1, "dv": 1},
        {"d": 177, "dv": 129},
        {"d": 64, "dv": 65},
    ):
        flash(**right).infer("ascend")
    outside(flash(batch=0), "batch size B", "at least 1", 0)
    outside(flash(heads=(2**16 + 1, 1)), "N1 of query", "at most 65536", 2**16 + 1)
    outside(flash(lengths=(0, 1)), "query sequence length", "at least 1", 0)
    outside(flash(lengths=(1, 0)), "key sequence length", "at least 1", 0)
    outside(flash(d=513), "D of query", "at most 512", 513)
    outside(flash(dv=513), "Dv of value", "at most 512", 513)


def test_what_cann_refuses_and_our_kernels_do(flash, good):
    """Short prefixes and many of them, slopes with lengths apart, sinks."""
    for batch, prefix in ((1, 15), (2049, 16)):
        call = flash(batch=batch, sparse_mode=5).listed("prefix", (prefix,) * batch)
        assert call.infer("ascend") == call.infer("cpu")
    for pse_type in (2, 3):
        call = flash(lengths=(39, 40), pse_type=pse_type, real_shift=("float32", (4,)))
        assert call.infer("ascend") == call.infer("cpu")
    call = flash(sink=("float32", (4,)))
    assert call.infer("ascend") == call.infer("cpu")


def test_unknown_sizes_pass(good, call_name):
    call = good(call_name)
    for name, value in call.inputs.items():
        call.inputs[name] = value and (value[0], (-1,) * len(value[1]))
    call.infer("ascend")


def test_error_codes(flash, good):
    """The codes of the aclnn interface: null, invalid, beyond a limit."""

    def code(call):
        with pytest.raises((TypeError, ValueError)) as caught:
            call.infer("ascend")
        return caught.value.aclnn_code

    assert code(flash().but(query=None)) == 161001
    assert code(flash().typed("query", "int8")) == 161002
    assert code(flash().shaped("query", (1, 2))) == 161002
    assert code(flash(input_layout="ABCD")) == 161002
    assert code(good("NsaCompress").listed("actual_seq_len", (272, 3))) == 161002
    assert code(good("NsaCompress").listed("actual_seq_len", ())) == 161002
    assert code(good("NsaCompressGrad").shaped("output_grad", (3, 8, 128))) == 161002
    assert code(flash(d=513)) == 561002
    assert code(flash(heads=(2**16 + 1, 1))) == 561002


def test_messages_name_one_limit(flash):
    with pytest.raises(ValueError) as caught:
        flash(d=513).infer("ascend")
    text = "flash_attention_score: D of query must be at most 512 on Ascend, got 513"
    assert re.fullmatch(text, str(caught.value))
