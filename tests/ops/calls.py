"""Calls of the public operators in every mode, and native cases as such calls."""

import contextlib

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

import mindspore_nsa
from mindspore_nsa import _native
from mindspore_nsa.testing.case import OUTPUTS, Case, output_dtypes
from mindspore_nsa.testing.dtypes import BFLOAT16, decode, encode

MODES = ("pynative", "graph", "jit_O0", "jit_O1", "jit_bytecode")


@contextlib.contextmanager
def context_mode(mode):
    """MindSpore's own mode inside the block; PyNative outside."""
    ms.set_context(mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE)
    try:
        yield
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)


class Function(nn.Cell):
    """A function as a Cell, which GRAPH_MODE compiles."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def construct(self, *args):
        return self.function(*args)


def in_mode(mode, function):
    """The function as that mode runs it; call it inside `context_mode`."""
    if mode == "pynative":
        return function
    if mode == "graph":
        return Function(function)
    if mode == "jit_bytecode":
        return ms.jit(function, capture_mode="bytecode")
    return ms.jit(function, capture_mode="ast", jit_level=mode[-2:])


def run(mode, function, *args):
    """The outputs of one call as NumPy arrays (bfloat16 as float32)."""
    with context_mode(mode):
        return to_numpy(in_mode(mode, function)(*args))


def to_numpy(outputs):
    if isinstance(outputs, (tuple, list)):
        return tuple(to_numpy(x) for x in outputs)
    if outputs.dtype == ms.bfloat16:
        outputs = outputs.astype(ms.float32)
    return outputs.asnumpy()


def gradient(function, positions, upstream, last_upstream=None, place=0):
    """A function of the same arguments: its outputs and the gradients of the one at `place`.

    `upstream` is the output gradient in float32, which holds every value of the output's dtype;
    `last_upstream` is that of the last output, where it has one, too.
    """

    def total(*args):
        outputs = function(*args)
        first = outputs[place] if isinstance(outputs, tuple) else outputs
        loss = ops.sum(ops.cast(first, ms.float32) * upstream)
        if last_upstream is not None:
            loss = loss + ops.sum(outputs[-1] * last_upstream)
        return loss, outputs

    both = ms.value_and_grad(total, positions, None, has_aux=True)

    def gradients(*args):
        value, grads = both(*args)
        return value[1], grads

    return gradients


def tensor(array):
    """A Tensor of a native tensor: an array, or the bits of a bfloat16 one."""
    if isinstance(array, tuple):
        return Tensor(decode(array), ms.bfloat16)
    return Tensor(array)


def in_dtype(array, dtype):
    """An output as the binding would return it; `to_numpy` has widened bfloat16."""
    if dtype == BFLOAT16:
        assert array.dtype == np.float32
        return encode(array, dtype)
    # Gradients that nobody asked for are placeholders of one zero.
    return array.astype(dtype) if array.shape == (1,) and not array.any() else array


def _pick(tensors, place):
    """An argument: the Tensor at an index, or the constant itself (None, a tuple)."""
    if isinstance(place, int):
        return tensors[place]
    return place


# A compiled function has to name its arguments, so there is one of these per operator. `at` says
# where each argument comes from.
def _nsa_compress(at, constants):
    def forward(*t):
        return mindspore_nsa.nsa_compress(
            _pick(t, at["input"]),
            _pick(t, at["weight"]),
            actual_seq_len=_pick(t, at["actual_seq_len"]),
            **constants,
        )

    return forward


def _nsa_compress_attention(at, constants):
    def forward(*t):
        return mindspore_nsa.nsa_compress_attention(
            _pick(t, at["query"]),
            _pick(t, at["key"]),
            _pick(t, at["value"]),
            topk_mask=_pick(t, at["topk_mask"]),
            atten_mask=_pick(t, at["atten_mask"]),
            actual_seq_qlen=_pick(t, at["actual_seq_qlen"]),
            actual_cmp_seq_kvlen=_pick(t, at["actual_cmp_seq_kvlen"]),
            actual_sel_seq_kvlen=_pick(t, at["actual_sel_seq_kvlen"]),
            q_offset=_pick(t, at["q_offset"]),
            **constants,
        )

    return forward


def _nsa_selected_attention(at, constants):
    def forward(*t):
        return mindspore_nsa.nsa_selected_attention(
            _pick(t, at["query"]),
            _pick(t, at["key"]),
            _pick(t, at["value"]),
            _pick(t, at["topk_indices"]),
            actual_seq_qlen=_pick(t, at["actual_seq_qlen"]),
            actual_seq_kvlen=_pick(t, at["actual_seq_kvlen"]),
            q_offset=_pick(t, at["q_offset"]),
            **constants,
        )

    return forward


def _flash_attention_score(at, constants):
    def forward(*t):
        return mindspore_nsa.flash_attention_score(
            _pick(t, at["query"]),
            _pick(t, at["key"]),
            _pick(t, at["value"]),
            real_shift=_pick(t, at["real_shift"]),
            drop_mask=_pick(t, at["drop_mask"]),
            attn_mask=_pick(t, at["attn_mask"]),
            prefix=_pick(t, at["prefix"]),
            actual_seq_qlen=_pick(t, at["actual_seq_qlen"]),
            actual_seq_kvlen=_pick(t, at["actual_seq_kvlen"]),
            sink=_pick(t, at["sink"]),
            q_start_idx=_pick(t, at["q_start_idx"]),
            kv_start_idx=_pick(t, at["kv_start_idx"]),
            **constants,
        )

    return forward


def _nsa_compress_with_cache(at, constants):
    def forward(*t):
        return mindspore_nsa.nsa_compress_with_cache(
            _pick(t, at["input"]),
            _pick(t, at["weight"]),
            _pick(t, at["slot_mapping"]),
            block_table=_pick(t, at["block_table"]),
            actual_seq_len=_pick(t, at["actual_seq_len"]),
            cache=_pick(t, at["cache"]),
            **constants,
        )

    return forward


def _nsa_compress_attention_infer(at, constants):
    def forward(*t):
        return mindspore_nsa.nsa_compress_attention_infer(
            _pick(t, at["query"]),
            _pick(t, at["key"]),
            _pick(t, at["value"]),
            block_table=_pick(t, at["block_table"]),
            actual_seq_qlen=_pick(t, at["actual_seq_qlen"]),
            actual_cmp_seq_kvlen=_pick(t, at["actual_cmp_seq_kvlen"]),
            actual_sel_seq_kvlen=_pick(t, at["actual_sel_seq_kvlen"]),
            **constants,
        )

    return forward


def _nsa_selected_attention_infer(at, constants):
    def forward(*t):
        return mindspore_nsa.nsa_selected_attention_infer(
            _pick(t, at["query"]),
            _pick(t, at["key"]),
            _pick(t, at["value"]),
            _pick(t, at["topk_indices"]),
            block_table=_pick(t, at["block_table"]),
            actual_seq_qlen=_pick(t, at["actual_seq_qlen"]),
            actual_seq_kvlen=_pick(t, at["actual_seq_kvlen"]),
            **constants,
        )

    return forward


def _nsa_decode(at, constants):
    def forward(*t):
        return mindspore_nsa.nsa_decode(
            _pick(t, at["query"]),
            _pick(t, at["gates"]),
            _pick(t, at["key_cmp"]),
            _pick(t, at["value_cmp"]),
            _pick(t, at["key_slc"]),
            _pick(t, at["value_slc"]),
            _pick(t, at["key_win"]),
            _pick(t, at["value_win"]),
            block_table=_pick(t, at["block_table"]),
            cmp_block_table=_pick(t, at["cmp_block_table"]),
            actual_seq_qlen=_pick(t, at["actual_seq_qlen"]),
            actual_seq_kvlen=_pick(t, at["actual_seq_kvlen"]),
            **constants,
        )

    return forward


def _block_indexer(at, constants):
    def forward(*t):
        return mindspore_nsa.block_indexer(
            _pick(t, at["query"]),
            _pick(t, at["key"]),
            _pick(t, at["weights"]),
            actual_seq_qlen=_pick(t, at["actual_seq_qlen"]),
            actual_seq_kvlen=_pick(t, at["actual_seq_kvlen"]),
            q_offset=_pick(t, at["q_offset"]),
            **constants,
        )

    return forward


def _lightning_indexer(at, constants):
    def forward(*t):
        return mindspore_nsa.lightning_indexer(
            _pick(t, at["query"]),
            _pick(t, at["key"]),
            _pick(t, at["weights"]),
            actual_seq_lengths_query=_pick(t, at["actual_seq_lengths_query"]),
            actual_seq_lengths_key=_pick(t, at["actual_seq_lengths_key"]),
            compress_residual=_pick(t, at["compress_residual"]),
            block_table=_pick(t, at["block_table"]),
            **constants,
        )

    return forward


def _sparse_flash_attention(at, constants):
    def forward(*t):
        return mindspore_nsa.sparse_flash_attention(
            _pick(t, at["query"]),
            _pick(t, at["key"]),
            _pick(t, at["value"]),
            _pick(t, at["sparse_indices"]),
            query_rope=_pick(t, at["query_rope"]),
            key_rope=_pick(t, at["key_rope"]),
            sinks=_pick(t, at["sinks"]),
            actual_seq_lengths_query=_pick(t, at["actual_seq_lengths_query"]),
            actual_seq_lengths_kv=_pick(t, at["actual_seq_lengths_kv"]),
            block_table=_pick(t, at["block_table"]),
            **constants,
        )

    return forward


def _sparse_kl_loss(at, constants):
    def forward(*t):
        return mindspore_nsa.sparse_lightning_indexer_grad_kl_loss(
            _pick(t, at["query"]),
            _pick(t, at["key"]),
            _pick(t, at["query_index"]),
            _pick(t, at["key_index"]),
            _pick(t, at["weights"]),
            _pick(t, at["sparse_indices"]),
            _pick(t, at["softmax_max"]),
            _pick(t, at["softmax_sum"]),
            query_rope=_pick(t, at["query_rope"]),
            key_rope=_pick(t, at["key_rope"]),
            actual_seq_qlen=_pick(t, at["actual_seq_qlen"]),
            actual_seq_klen=_pick(t, at["actual_seq_klen"]),
            **constants,
        )

    return forward


def _dense_kl_loss(at, constants):
    def forward(*t):
        return mindspore_nsa.dense_lightning_indexer_grad_kl_loss(
            _pick(t, at["query"]),
            _pick(t, at["key"]),
            _pick(t, at["query_index"]),
            _pick(t, at["key_index"]),
            _pick(t, at["weights"]),
            _pick(t, at["softmax_max"]),
            _pick(t, at["softmax_sum"]),
            _pick(t, at["softmax_max_index"]),
            _pick(t, at["softmax_sum_index"]),
            query_rope=_pick(t, at["query_rope"]),
            key_rope=_pick(t, at["key_rope"]),
            actual_seq_qlen=_pick(t, at["actual_seq_qlen"]),
            actual_seq_klen=_pick(t, at["actual_seq_klen"]),
            **constants,
        )

    return forward


def _dense_softmax_lse(at, constants):
    def forward(*t):
        return mindspore_nsa.dense_lightning_indexer_softmax_lse(
            _pick(t, at["query_index"]),
            _pick(t, at["key_index"]),
            _pick(t, at["weights"]),
            actual_seq_qlen=_pick(t, at["actual_seq_qlen"]),
            actual_seq_klen=_pick(t, at["actual_seq_klen"]),
            **constants,
        )

    return forward


def _dropout_mask(at, constants):
    def forward(*t):
        return mindspore_nsa.dropout_mask(**constants)

    return forward


# The function that calls the public one, and the native operator whose inputs are its Tensors.
_FORWARDS = {
    "nsa_compress": (_nsa_compress, "NsaCompress"),
    "nsa_compress_attention": (_nsa_compress_attention, "NsaCompressAttention"),
    "nsa_selected_attention": (_nsa_selected_attention, "NsaSelectedAttention"),
    "flash_attention_score": (_flash_attention_score, "FlashAttentionScore"),
    "nsa_compress_with_cache": (_nsa_compress_with_cache, "NsaCompressWithCache"),
    "nsa_compress_attention_infer": (_nsa_compress_attention_infer, "NsaCompressAttentionInfer"),
    "nsa_selected_attention_infer": (_nsa_selected_attention_infer, "NsaSelectedAttentionInfer"),
    "nsa_decode": (_nsa_decode, "NsaDecode"),
    "block_indexer": (_block_indexer, "BlockIndexer"),
    "lightning_indexer": (_lightning_indexer, "LightningIndexer"),
    "sparse_flash_attention": (_sparse_flash_attention, "SparseFlashAttention"),
    "sparse_kl_loss": (_sparse_kl_loss, "SparseLightningIndexerGradKLLoss"),
    "dense_kl_loss": (_dense_kl_loss, "DenseLightningIndexerGradKLLoss"),
    "dense_softmax_lse": (_dense_softmax_lse, "DenseLightningIndexerSoftmaxLse"),
    "dropout_mask": (_dropout_mask, "NsaDropoutMask"),
}

# Operators whose public function takes what the native one does.
DECODING = {
    native: public
    for public, (_, native) in _FORWARDS.items()
    if public.endswith(("_infer", "_with_cache", "_decode"))
}

KL_LOSSES = {
    native: public
    for public, (_, native) in _FORWARDS.items()
    if public.endswith(("_kl_loss", "_softmax_lse"))
}

# The gradients that not every call of FlashAttentionScoreGrad has, or of SparseFlashAttentionGrad.
PLACEHOLDERS = ("real_shift", "sink")
SPARSE_OPTIONAL = ("query_rope", "key_rope", "sinks")


class PublicCall:
    """A native case as a call of the public function: tensors, and constants by name."""

    def __init__(self, case, lists_as_tensors):
        self.case = case
        named = {n: x for n, x in case.named().items() if x is not None}
        self.constants = dict(case.attrs)
        self.upstream = self.sum_upstream = None
        self._translate(named)
        forward, self.forward_op = _FORWARDS[self.operator]
        self.tensors, places = {}, {}
        for spec in _native.schema(self.forward_op)["inputs"]:
            name = spec["name"]
            if name not in named:
                places[name] = None
            elif spec["list"] and not lists_as_tensors:
                places[name] = tuple(named[name].tolist())
            else:
                places[name] = len(self.tensors)
                self.tensors[name] = tensor(named[name])
        self.forward = forward(places, self.constants)

    def _translate(self, named):
        op, constants = self.case.op, self.constants
        self.wanted = ()
        if "softmax_sum_grad" in named:
            self.sum_upstream = Tensor(named.pop("softmax_sum_grad"))
        if op in ("NsaCompress", "NsaCompressGrad"):
            self.operator = "nsa_compress"
            if op == "NsaCompressGrad":
                self.wanted = ("input", "weight")
                self.upstream = named.pop("output_grad")
                constants["num_windows"] = len(decode(self.upstream))
            elif constants["num_windows"] < 0:
                # The rows of a Tensor list, which a tuple would not give.
                constants["num_windows"] = (
                    len(decode(named["input"])) // constants["compress_stride"]
                )
        elif op == "NsaCompressAttention":
            self.operator = "nsa_compress_attention"
            constants["causal"] = bool(constants["causal"])
        elif op in ("NsaSelectedAttention", "NsaSelectedAttentionGrad"):
            self.operator = "nsa_selected_attention"
            constants["causal"] = bool(constants["causal"])
            if op.endswith("Grad"):
                self.wanted = ("query", "key", "value")
                self.upstream = named.pop("attention_out_grad")
        elif op == "FlashAttentionScoreGrad":
            self._translate_flash_gradient(named)
        elif op == "FlashAttentionScore":
            self.operator = "flash_attention_score"
            constants["return_softmax"] = True
        elif op == "BlockIndexer":
            self.operator = "block_indexer"
        elif op in ("LightningIndexer", "LightningIndexerGrad"):
            self.operator = "lightning_indexer"
            constants["return_value"] = bool(constants.get("return_value", True))
            if op.endswith("Grad"):
                self.wanted = ("query", "key", "weights")
                self.upstream = named.pop("sparse_values_grad")
                # Absent ones count as 1; the native gradient has their slope, too.
                ones = np.ones(decode(named["query"]).shape[:-1], np.float32)
                named.setdefault("weights", ones)
                constants["sparse_count"] = named.pop("sparse_indices").shape[-1]
        elif op in ("SparseFlashAttention", "SparseFlashAttentionGrad"):
            self.operator = "sparse_flash_attention"
            asked = constants["return_softmax_lse"] or self.sum_upstream is not None
            constants["return_softmax_lse"] = bool(asked)
            if op.endswith("Grad"):
                self.wanted = ("query", "key", "value")
                self.wanted += tuple(name for name in SPARSE_OPTIONAL if name in named)
                self.upstream = named.pop("attention_out_grad")
        elif op in KL_LOSSES:
            self.operator = KL_LOSSES[op]
            return  # statistics are inputs
        elif op in DECODING:
            self.operator = DECODING[op]
        else:
            self.operator = "dropout_mask"
            constants["seed"] = int(named.pop("seed")[0])
        for name in ("attention_out", "attention_in", "softmax_max", "softmax_sum"):
            named.pop(name, None)

    def _translate_flash_gradient(self, named):
        constants = self.constants
        self.upstream = named.pop("dy")
        pse_grad = constants.pop("pse_grad")
        l = constants.pop("compress_block_size")  # noqa: E741
        s = constants.pop("compress_stride")
        self.wanted = ("query", "key", "value")
        if l == 0:
            self.operator = "flash_attention_score"
            self.constants["return_softmax"] = True
            self.wanted += ("real_shift",) if pse_grad and "real_shift" in named else ()
            self.wanted += ("sink",) if "sink" in named else ()
            return
        self.operator = "nsa_compress_attention"
        for old, new in (("attn_mask", "atten_mask"), ("actual_seq_kvlen", "actual_cmp_seq_kvlen")):
            if old in named:
                named[new] = named.pop(old)
        # Without a stride the gradient knows no causal rule, and any stride selects alike.
        step = s or l
        self.constants = {
            "scale_value": constants["scalar_value"],
            "head_num": constants["head_num"],
            "compress_block_size": -(-l // step) * step,
            "compress_stride": step,
            "select_block_size": -(-l // step) * step,
            "select_block_count": 1,
            "causal": s > 0,
        }

    def compiled(self):
        """The call as one function of its tensors; a gradient also gives what its forward gave."""
        return self.forward if self.upstream is None else self._with_gradient(self.forward)

    def _with_gradient(self, forward):
        names = tuple(self.tensors)
        positions = tuple(names.index(name) for name in self.wanted)
        upstream = Tensor(decode(self.upstream).astype(np.float32))
        place = 1 if self.operator == "lightning_indexer" else 0
        return gradient(forward, positions, upstream, self.sum_upstream, place)

    def run(self, mode):
        """The case and its outputs, both in native form.

        A gradient's case is given what its forward gave here, which the reference then starts from.
        """
        tensors = tuple(self.tensors.values())
        if mode == "jit_bytecode" and self.upstream is not None:
            # Taken inside, MindSpore 2.10 gives zeros for the gradients of variable arguments,
            # whatever the operator is.
            outside = self._with_gradient(in_mode(mode, self.forward))
            return self.in_native_form(run("pynative", outside, *tensors))
        return self.in_native_form(run(mode, self.compiled(), *tensors))

    def in_native_form(self, outputs):
        """The case and the NumPy outputs of `compiled` as the binding would give them."""
        case = self.case
        if self.upstream is not None:
            forward, grads = outputs
            case = self._after_forward(forward)
            given = dict(zip(self.wanted, grads))
            outputs = [given[name] for name in self.wanted[: 3 if "query" in given else 2]]
            optional = {
                "FlashAttentionScoreGrad": PLACEHOLDERS,
                "SparseFlashAttentionGrad": SPARSE_OPTIONAL,
            }.get(case.op, ())
            outputs += [given.get(name, np.zeros(1, "float32")) for name in optional]
        elif not isinstance(outputs, tuple):
            outputs = (self._written(outputs) if case.op == "NsaCompressWithCache" else outputs,)
        return case, [in_dtype(x, dtype) for x, dtype in zip(outputs, output_dtypes(case))]

    def _written(self, cache):
        """The native output of a call that gave its cache: the rows that it wrote."""
        named = self.case.named()
        l, s = (self.case.attrs[f"compress_{x}"] for x in ("block_size", "stride"))  # noqa: E741
        rows = np.zeros((len(named["actual_seq_len"]), *cache.shape[1:]), cache.dtype)
        for b, (length, slot) in enumerate(zip(named["actual_seq_len"], named["slot_mapping"])):
            if length >= l and (length - l) % s == 0:
                rows[b] = cache[slot]
        return rows

    def _after_forward(self, outputs):
        case = self.case
        if case.op == "NsaCompressGrad":
            return case
        named = case.named()
        for name, output in zip(OUTPUTS[self.forward_op], outputs):
            if name == "attention_out":
                name = "attention_in" if "attention_in" in named else name
                named[name] = in_dtype(output, case.dtype)
            elif name in named:
                named[name] = output
        return Case.of(case.op, named, case.attrs, case.dtype, case.name)
