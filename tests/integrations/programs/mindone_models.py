"""Llama and Qwen3 of mindone: the attention function, conversion, training, generate."""

import inspect

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn

from model_zoo_demo.cpu_operators import with_cpu_operators

with_cpu_operators("mindone")

from mindone.transformers.masking_utils import AttentionMaskInterface  # noqa: E402
from mindone.transformers.modeling_utils import AttentionInterface  # noqa: E402
from mindone.transformers.models.llama.modeling_llama import LlamaForCausalLM  # noqa: E402
from mindone.transformers.models.qwen3.modeling_qwen3 import Qwen3ForCausalLM  # noqa: E402
from transformers import LlamaConfig, Qwen3Config  # noqa: E402

from mindspore_nsa.integrations import mindone as adapter  # noqa: E402

KINDS = {"llama": (LlamaConfig, LlamaForCausalLM), "qwen3": (Qwen3Config, Qwen3ForCausalLM)}
SIZES = {
    **{"compress_block_size": 16, "compress_stride": 8, "select_block_size": 16},
    **{"select_block_count": 4, "window_size": 32},
}
IDS = Tensor(np.random.default_rng(1).integers(1, 128, (2, 128)), ms.int64)


def make(kind, attention="eager", **changes):
    config, model = KINDS[kind]
    config = config(
        **{"vocab_size": 128, "hidden_size": 64, "intermediate_size": 128, "head_dim": 16},
        **{"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2},
        **{"max_position_embeddings": 256, **changes},
    )
    config._attn_implementation = attention
    made = model(config)
    rng = np.random.default_rng(0)
    for name, p in made.parameters_and_names():
        if p.ndim == 2:
            drawn = rng.standard_normal(p.shape) * (0.02 if "embed" in name else 0.06)
            p.set_data(Tensor(drawn.astype(np.float32)))
    return made.set_train(False)


def loss_of(model, mask=None):
    return model(IDS, attention_mask=mask, labels=IDS, use_cache=False)[0]


def gradients_of(model):
    gradients = ms.grad(lambda: loss_of(model), None, model.trainable_params())()
    return sum(float(g.abs().sum()) for g in gradients)


def refuses(error, text, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except error as raised:
        assert text in str(raised), raised
        return
    raise AssertionError(text)


def check_function(kind):
    """The attention function is eager attention, also on the real tokens of padded rows."""
    eager, ours = make(kind), make(kind, adapter.register())
    assert ours.config._attn_implementation == "mindspore_nsa"
    print(f"result: {kind} function", abs(float(loss_of(eager)) - float(loss_of(ours))))
    first, second = gradients_of(eager), gradients_of(ours)
    assert abs(first - second) < 1e-5 * first, (first, second)
    mask = np.ones((2, 128), np.int32)
    mask[0, :40] = 0
    logits = [m(IDS, attention_mask=Tensor(mask), use_cache=False)[0].asnumpy() for m in
              (eager, ours)]  # fmt: skip
    difference = np.abs(logits[0] - logits[1])[mask == 1].max()
    print(f"result: {kind} padded", difference / np.abs(logits[0]).max())


def check_conversion(kind):
    eager = make(kind)
    before = float(loss_of(eager))
    dense = float(loss_of(adapter.convert_attention(make(kind), attention="dense")))
    print(f"result: {kind} converted", repr(before), repr(dense))
    # 8 blocks of 16 hold all tokens.
    enough = {**SIZES, "select_block_count": 8}
    whole = float(loss_of(adapter.convert_attention(make(kind), **enough)))
    print(f"result: {kind} as NSA", repr(whole))
    model = adapter.convert_attention(make(kind), **SIZES)
    refuses(ValueError, "layer 0 is converted already", adapter.convert_attention, model)

    mask = np.ones((2, 128), np.int32)
    mask[0, :40] = 0
    padded = model(IDS, attention_mask=Tensor(mask), use_cache=False)[0].asnumpy()
    alone = model(IDS[:1, 40:], use_cache=False)[0].asnumpy()
    assert np.abs(padded[0, 40:] - alone[0]).max() < 1e-5
    return model


def train(model):
    model.set_train()
    optimizer = nn.Adam(model.trainable_params(), 1e-3)
    step = ms.value_and_grad(lambda: loss_of(model), None, model.trainable_params())
    losses = []
    for _ in range(4):
        loss, gradients = step()
        optimizer(gradients)
        losses.append(float(loss))
    model.set_train(False)
    return losses


def check_generation(model):
    prompt = Tensor(np.random.default_rng(2).integers(1, 128, (2, 70)), ms.int64)
    mask = np.ones((2, 70), np.int32)
    mask[0, :30] = 0
    options = {
        **{"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0, "eos_token_id": None},
        "attention_mask": Tensor(mask),
    }
    whole = model.generate(prompt, use_cache=False, **options).asnumpy()
    cache = adapter.NSACache(model, 2, 80)
    cached = model.generate(prompt, past_key_values=cache, **options).asnumpy()
    print("result: generate", np.array_equal(whole, cached))
    refuses(NotImplementedError, "crop the rows by truncate", cache.crop, 3)
    refuses(TypeError, "must be an NSACache", model, prompt, use_cache=True)
    # Beams: both rows go on as the second.
    cache = adapter.NSACache(model, 2, 80)
    model(prompt, attention_mask=Tensor(mask), past_key_values=cache, use_cache=True)
    cache.reorder_cache(Tensor([1, 1]))
    step = {"attention_mask": ms.ops.ones((2, 71), ms.int32), "past_key_values": cache}
    rows = model(Tensor([[5], [5]], ms.int64), **step, use_cache=True)[0].asnumpy()
    np.testing.assert_array_equal(rows[0], rows[1])
    whole = np.concatenate((prompt.asnumpy()[1:], [[5]]), 1)
    whole = model(Tensor(whole), use_cache=False)[0].asnumpy()
    np.testing.assert_allclose(rows[1, -1], whole[0, -1], rtol=0, atol=1e-5)


def check_fields():
    """Every field of the configurations is served, refused or has no part in attention."""
    lists = adapter.SERVED_FIELDS, adapter.REFUSED_FIELDS, adapter.IRRELEVANT_FIELDS
    known = [name for names in lists for name in names]
    assert len(known) == len(set(known))
    fields = set()
    for kind in (LlamaConfig, Qwen3Config):
        fields |= set(inspect.signature(kind.__init__).parameters) - {"self", "kwargs"}
    assert fields == set(known), fields ^ set(known)


def check_refused():
    refuses(ValueError, "no model type of llama, qwen3", adapter.nsa_config,
            type("C", (), {"model_type": "gemma3"})())  # fmt: skip
    for changes, text in (
        ({"attention_dropout": 0.1}, "dropout of attention weights"),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, "rope_type must be one of"),
        ({"partial_rotary_factor": 0.5}, "a part of the head rotated"),
    ):
        config = LlamaConfig(head_dim=16, **changes)
        refuses(ValueError, text, adapter.nsa_config, config)
    sliding = Qwen3Config(use_sliding_window=True, sliding_window=8, max_window_layers=0)
    refuses(ValueError, "sliding windows", adapter.nsa_config, sliding)
    convert = adapter.convert_attention
    refuses(TypeError, "unknown sizes windows", convert, make("llama"), windows=3)
    refuses(ValueError, "layers must be in [0, 2), got 2", convert, make("llama"), layers=[2])
    refuses(ValueError, "attention must be one of nsa, dense", convert, None, attention="x")
    refuses(TypeError, "model must be a decoder", convert, nn.Dense(2, 2))
    refuses(ValueError, "must have converted layers", adapter.NSACache, make("llama"), 1, 9)
    refuses(ValueError, "model must be a Llama", adapter.NSACache, make("qwen3"), 1, 9)
    layer, x = convert(make("llama"), **SIZES).model.layers[0].self_attn, ms.ops.ones((1, 4, 64))
    refuses(ValueError, "output_attentions must be False", layer, x, output_attentions=True)
    refuses(ValueError, "block_tables must be None", layer, x, block_tables=x)
    refuses(ValueError, "is_causal must be None", layer, x, is_causal=True)
    refuses(ValueError, "head_mask must be None", layer, x, head_mask=x)
    layer(x, position_ids=x)
    seen = np.tril(np.ones((1, 1, 4, 4), bool))
    layer(x, attention_mask=Tensor(seen))
    packed = seen.copy()
    packed[..., 3, :1] = packed[..., 2, 1] = False
    for wrong in (np.ones_like(seen), np.triu(seen, -1), packed):
        floats = np.where(wrong, 0, -1e30).astype(np.float32)
        refuses(ValueError, "hide padding and later tokens only", layer, x,
                attention_mask=Tensor(floats))  # fmt: skip
    check_fields()
    AttentionInterface.register("taken", print)
    refuses(ValueError, "another attention has the name 'taken'", adapter.register, "taken")
    AttentionMaskInterface.register("masked", print)
    refuses(ValueError, "another mask has the name 'masked'", adapter.register, "masked")
    assert "masked" not in AttentionInterface._global_mapping
    refuses(ValueError, "name 'eager'", adapter.register, "eager")
    refuses(ValueError, "another attention has the name 'sdpa'", adapter.register, "sdpa")
    for name in ("my_flash", "paged_nsa"):
        refuses(ValueError, "name must not contain", adapter.register, name)
    assert adapter.register() == adapter.register()
    refuses(ValueError, "dropout must be 0", adapter.attention, *[None] * 5, dropout=0.5)
    print("result: refused")


def check_rotary():
    """Scaled angles are those of the model: the loss of the dense layers stays."""
    differences = []
    for name in ("linear", "yarn"):
        scaling = {"rope_type": name, "factor": 4.0}
        eager = make("llama", rope_scaling=scaling)
        dense = adapter.convert_attention(make("llama", rope_scaling=scaling), attention="dense")
        differences.append(abs(float(loss_of(eager)) - float(loss_of(dense))))
    print("result: rotary", *differences)


def main():
    # Threads that wait for one another would spin, which takes most of the processor time.
    ms.runtime.launch_blocking()
    check_rotary()
    for kind in KINDS:
        check_function(kind)
        model = check_conversion(kind)
        print(f"result: {kind} trains", *(f"{loss:.4f}" for loss in train(model)))
        if kind == "llama":
            check_generation(model)
            model.save_pretrained("saved")
            ms.save_checkpoint(model, "net.ckpt")
            other = adapter.convert_attention(make(kind), **SIZES)
            assert ms.load_param_into_net(other, ms.load_checkpoint("net.ckpt")) == ([], [])
            assert float(loss_of(other)) == float(loss_of(model))
            print("result: saved and loaded")
    check_refused()


main()
