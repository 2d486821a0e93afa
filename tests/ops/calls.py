"""Calls of the public operators in every mode, and native cases as such calls."""

import contextlib

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

import mindspore_nsa
from mindspore_nsa import _native
from mindspore_nsa.testing.case import OUTPUTS, Case, output_dtypes
from mindspore_nsa.testing.dtypes import BFLOAT16, decode, encode
from tools.calls.declared import GRADIENTS

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


def _by_name(operator, names, places, constants):
    """The public function as one of its Tensors; `places` says where each argument comes from."""
    function = getattr(mindspore_nsa, operator)

    def forward(*tensors):
        given = {name: _pick(tensors, place) for name, place in zip(names, places)}
        return function(**given, **constants)

    return forward


# The gradients that not every call has.
OPTIONAL = {
    "FlashAttentionScoreGrad": ("real_shift", "sink"),
    "SparseFlashAttentionGrad": ("query_rope", "key_rope", "sinks"),
}


class PublicCall:
    """A native case as a call of the public function: tensors, and constants by name."""

    def __init__(self, case, lists_as_tensors):
        self.case = case
        named = {n: x for n, x in case.named().items() if x is not None}
        self.constants = dict(case.attrs)
        self.upstream = self.sum_upstream = None
        self.wanted = ()
        self.forward_op = case.op.removesuffix("Grad")
        if case.op.endswith("Grad"):
            self._translate_gradient(named)
        self._translate(named)
        schema = _native.schema(self.forward_op)
        for spec in schema["attrs"]:
            if spec["flag"] and spec["name"] in self.constants:
                self.constants[spec["name"]] = bool(self.constants[spec["name"]])
        self.tensors, places = {}, {}
        for spec in schema["inputs"]:
            name = spec["name"]
            if name in self.constants:
                continue
            if name not in named:
                places[name] = None
            elif spec["list"] and not lists_as_tensors:
                places[name] = tuple(named[name].tolist())
            else:
                places[name] = len(self.tensors)
                self.tensors[name] = tensor(named[name])
        self.forward = _by_name(
            schema["function"], tuple(places), tuple(places.values()), self.constants
        )

    def _translate(self, named):
        """Fills in the arguments that the public function has and the native operator does not."""
        op, constants = self.forward_op, self.constants
        if op == "NsaCompress":
            if self.upstream is not None:
                constants["num_windows"] = len(decode(self.upstream))
            elif constants["num_windows"] < 0:
                # The rows of a Tensor list, which a tuple would not give.
                constants["num_windows"] = (
                    len(decode(named["input"])) // constants["compress_stride"]
                )
        elif op == "FlashAttentionScore":
            constants["return_softmax"] = True
        elif op == "LightningIndexer":
            constants.setdefault("return_value", True)
            if self.upstream is not None:
                # Absent ones count as 1; the native gradient has their slope, too.
                ones = np.ones(decode(named["query"]).shape[:-1], np.float32)
                named.setdefault("weights", ones)
                constants["sparse_count"] = named["sparse_indices"].shape[-1]
        elif op == "SparseFlashAttention":
            constants["return_softmax_lse"] |= self.sum_upstream is not None
        elif op == "NsaDropoutMask":
            constants["seed"] = int(named.pop("seed")[0])

    def _translate_gradient(self, named):
        """The output gradients, and the inputs whose gradients are asked for."""
        constants = self.constants
        if "softmax_sum_grad" in named:
            self.sum_upstream = Tensor(named["softmax_sum_grad"])
        sources = GRADIENTS[self.forward_op].sources
        (upstream,) = (name for name, text in sources.items() if text.startswith("dout"))
        self.upstream = named[upstream]
        absent = {name for name in OPTIONAL.get(self.case.op, ()) if name not in named}
        if self.forward_op == "FlashAttentionScore":
            absent |= set() if constants.pop("pse_grad") else {"real_shift"}
            block, stride = (constants.pop(f"compress_{x}") for x in ("block_size", "stride"))
            if block > 0:
                self._translate_compress_gradient(named, block, stride)
        results = GRADIENTS[self.forward_op].results
        self.wanted = tuple(name for name in results if name not in absent)

    def _translate_compress_gradient(self, named, block, stride):
        """FlashAttentionScoreGrad is the gradient of nsa_compress_attention, too."""
        self.forward_op = "NsaCompressAttention"
        for old, new in (("attn_mask", "atten_mask"), ("actual_seq_kvlen", "actual_cmp_seq_kvlen")):
            if old in named:
                named[new] = named.pop(old)
        # Without a stride the gradient knows no causal rule, and any stride selects alike.
        step = stride or block
        self.constants = {
            "scale_value": self.constants["scalar_value"],
            "head_num": self.constants["head_num"],
            "compress_block_size": -(-block // step) * step,
            "compress_stride": step,
            "select_block_size": -(-block // step) * step,
            "select_block_count": 1,
            "causal": stride > 0,
        }

    def compiled(self):
        """The call as one function of its tensors; a gradient also gives what its forward gave."""
        return self.forward if self.upstream is None else self._with_gradient(self.forward)

    def _with_gradient(self, forward):
        names = tuple(self.tensors)
        positions = tuple(names.index(name) for name in self.wanted)
        upstream = Tensor(decode(self.upstream).astype(np.float32))
        place = 1 if self.forward_op == "LightningIndexer" else 0
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
            placeholder = np.zeros(1, np.float32)
            outputs += [given.get(name, placeholder) for name in OPTIONAL.get(case.op, ())]
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
