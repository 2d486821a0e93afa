"""A call of a native operator: its arrays and attributes, its reference, and the comparison."""

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from mindspore_nsa import _native, reference
from mindspore_nsa.reference import FLOAT64

from .dtypes import decode, dtype_name
from .kept import Kept, digest
from .picks import check_picks
from .plain import Sizes, Terms, Unflushed, plain_precision
from .tolerance import check, check_rows, check_statistics, check_topk, error, limit

# Names of the inputs and outputs of every operator, in native order.
INPUTS = {
    op: tuple(spec["name"] for spec in _native.schema(op)["inputs"]) for op in _native.op_names()
}
OUTPUTS = {op: tuple(_native.schema(op)["outputs"]) for op in _native.op_names()}

# e(plain) is the largest over this many orders of its sums.
ORDERS = 33

_kept = Kept()

_FLOAT32_OUTPUTS = (
    *("softmax_max", "softmax_sum", "dsink", "dsinks", "dweights", "d_weights", "loss"),
    *("softmax_max_index", "softmax_sum_index"),
)


@dataclass
class Case:
    """One call at the native level."""

    op: str
    inputs: list  # in native order; None = absent; bfloat16 as ("bfloat16", uint16 bits)
    attrs: dict
    dtype: str
    name: str = ""
    memo: dict = field(default_factory=dict, repr=False)  # reference and plain outputs

    @classmethod
    def of(cls, op, named, attrs, dtype, name=""):
        """From inputs by name; those that are not named are absent."""
        unknown = set(named).difference(INPUTS[op])
        assert not unknown, f"{op} has no input {unknown}"
        return cls(op, [named.get(x) for x in INPUTS[op]], attrs, dtype, name)

    def named(self):
        """The inputs by name, as they are."""
        return dict(zip(INPUTS[self.op], self.inputs, strict=True))

    def __str__(self):
        shapes = {
            name: f"{dtype_name(x)}{list(decode(x).shape)}"
            if decode(x).ndim > 1 or decode(x).size > 16
            else decode(x).tolist()
            for name, x in self.named().items()
            if x is not None
        }
        return f"{self.op} {self.name} {self.dtype} inputs {shapes} attrs {self.attrs}"


def _run(case, precision):
    """Outputs in native order, and the block scores of operators that choose blocks (else None)."""
    tensors = {name: None if x is None else decode(x) for name, x in case.named().items()}
    attrs = dict(case.attrs)
    scores = None
    if case.op == "NsaDropoutMask":
        mask = reference.dropout_mask(attrs["keep_prob"], attrs["numel"], int(tensors["seed"][0]))
        return [mask], None
    if case.op == "NsaCompress":
        if attrs["num_windows"] < 0:
            attrs["num_windows"] = len(tensors["input"]) // attrs["compress_stride"]
        outputs = [reference.nsa_compress(**tensors, **attrs, precision=precision)]
    elif case.op == "NsaCompressGrad":
        outputs = reference.nsa_compress_grad(**tensors, **attrs, precision=precision)
    elif case.op == "NsaCompressAttention":
        *outputs, scores = reference.nsa_compress_attention(
            **tensors, **attrs, return_scores=True, precision=precision
        )
    elif case.op == "NsaSelectedAttention":
        outputs = reference.nsa_selected_attention(**tensors, **attrs, precision=precision)
    elif case.op == "NsaSelectedAttentionGrad":
        outputs = reference.nsa_selected_attention_grad(**tensors, **attrs, precision=precision)
    elif case.op == "NsaCompressWithCache":
        outputs = [
            reference.nsa_compress_with_cache(
                **tensors, **attrs, return_rows=True, precision=precision
            )
        ]
    elif case.op == "NsaCompressAttentionInfer":
        *outputs, scores = reference.nsa_compress_attention_infer(
            **tensors, **attrs, return_scores=True, precision=precision
        )
    elif case.op == "NsaSelectedAttentionInfer":
        outputs = [reference.nsa_selected_attention_infer(**tensors, **attrs, precision=precision)]
    elif case.op == "NsaDecode":
        outputs = [reference.nsa_decode(**tensors, **attrs, precision=precision)]
    elif case.op == "BlockIndexer":
        *outputs, scores = reference.block_indexer(
            **tensors, **attrs, return_scores=True, precision=precision
        )
    elif case.op == "LightningIndexer":
        *outputs, scores = reference.lightning_indexer(
            **tensors, **attrs, return_scores=True, precision=precision
        )
    elif case.op == "LightningIndexerGrad":
        outputs = reference.lightning_indexer_grad(**tensors, **attrs, precision=precision)
    elif case.op == "SparseFlashAttention":
        outputs = reference.sparse_flash_attention(**tensors, **attrs, precision=precision)
    elif case.op == "SparseFlashAttentionGrad":
        gradients = reference.sparse_flash_attention_grad(**tensors, **attrs, precision=precision)
        outputs = [np.zeros(1, precision.real) if x is None else x for x in gradients]
    elif case.op == "SparseLightningIndexerGradKLLoss":
        outputs = reference.sparse_lightning_indexer_grad_kl_loss(
            **tensors, **attrs, precision=precision
        )
    elif case.op == "DenseLightningIndexerGradKLLoss":
        outputs = reference.dense_lightning_indexer_grad_kl_loss(
            **tensors, **attrs, precision=precision
        )
    elif case.op == "DenseLightningIndexerSoftmaxLse":
        outputs = reference.dense_lightning_indexer_softmax_lse(
            **tensors, **attrs, precision=precision
        )
    elif case.op == "FlashAttentionScore":
        outputs = reference.flash_attention_score(**tensors, **attrs, precision=precision)
    else:
        wants_dpse = attrs.pop("pse_grad")
        gradients = reference.flash_attention_score_grad(**tensors, **attrs, precision=precision)
        if not wants_dpse:
            gradients = gradients._replace(dpse=None)
        outputs = [np.zeros(1, precision.real) if x is None else x for x in gradients]
    return list(outputs), scores


def _outputs(case, precision, key):
    if key not in case.memo:
        call = digest(case.op, case.inputs, case.attrs, case.dtype)
        case.memo[key] = _kept.get((call, key), lambda: _compute(case, precision))
    return case.memo[key]


def _compute(case, precision):
    # Rows that no operator may read hold NaN, and masked scores may overflow float32.
    with np.errstate(invalid="ignore", over="ignore"):
        return _run(case, precision)


def _reference(case):
    return _outputs(case, FLOAT64, "reference")


def _plain(case, order=0):
    return _outputs(case, plain_precision(case.dtype, order), f"plain {order}")


def run_reference(case):
    """float64 outputs in native order (integers and masks in their own dtype)."""
    return _reference(case)[0]


def run_plain(case, order=0):
    """Outputs of the plain implementation: float32 values rounded to the dtype of each output.

    `order` is that of its sums, see plain.py.
    """
    return _plain(case, order)[0]


def output_dtypes(case):
    """Names of the dtypes of the outputs, in native order."""
    fixed = {"topk_indices": "int32", "sparse_indices": "int32", "mask": "uint8"}
    return [
        fixed.get(name, "float32" if name in _FLOAT32_OUTPUTS else case.dtype)
        for name in OUTPUTS[case.op]
    ]


def compare(case, outputs):
    """Assert that the native outputs (as the binding returns them) of a case are right."""
    names = OUTPUTS[case.op]
    nsa = case.op.startswith("Nsa")
    assert len(outputs) == len(names), f"{case}: {len(outputs)} outputs, expected {len(names)}"
    cancels = case.op.endswith(("AttentionGrad", "KLLoss")) or case.op == "FlashAttentionScoreGrad"
    all_terms = _outputs(case, Terms(), "terms")[0] if cancels else [None] * len(names)
    each = zip(names, outputs, output_dtypes(case), run_reference(case), all_terms, strict=True)
    for place, (name, ours, dtype, ref64, terms) in enumerate(each):

        def plain(place=place):
            return (run_plain(case, order)[place] for order in range(ORDERS))

        label = f"{case}\n{name}"
        assert dtype_name(ours) == dtype, f"{label}: dtype {dtype_name(ours)}, expected {dtype}"
        ours = decode(ours)
        assert ours.shape == ref64.shape, f"{label}: shape {ours.shape}, expected {ref64.shape}"
        if name == "mask":
            assert np.array_equal(ours, ref64), f"{label}: bits differ"
        elif name == "topk_indices":
            _compare_topk(label, case, ours)
        elif name == "sparse_indices":
            continue  # with the values
        elif name == "sparse_values":
            check_picks(label, outputs[0], ours, dtype, _reference(case)[1])
        elif name.startswith(("softmax_max", "softmax_sum")):
            what, every = name.removesuffix("_index"), plain
            if case.op in (
                "SparseFlashAttention",
                "DenseLightningIndexerSoftmaxLse",
            ):  # one value where others have eight
                if ours.size == 0:
                    continue
                ours, ref64 = ours[..., None], ref64[..., None]

                def every(plain=plain):
                    return (x[..., None] for x in plain())

            check_statistics(label, ours, ref64, every, nsa and case.dtype == "float32", what)
        else:
            # Two exponentials and a logarithm make a loss, whose sum has few terms now and then.
            what = "loss" if name == "loss" else "tensor"
            check(label, ours, ref64, plain(), dtype, nsa, terms, what)
            if name in _BY_ROW and "Indexer" not in case.op:
                width = _width(case, name, ref64)
                more = (partial(of, case, place) for of in (_sizes, _unflushed))
                check_rows(label, ours, ref64, plain(), dtype, width, *more)


# A query's or a key's rows of one head each.
_BY_ROW = ("attention_out", "dq", "dk", "dv", "dq_rope", "dk_rope")


def _sizes(case, place):
    return _outputs(case, Sizes(case.dtype), "sizes")[0][place]


def _unflushed(case, place):
    return _outputs(case, Unflushed(), "unflushed")[0][place]


def _width(case, name, x):
    """Elements of a row of a head. Layouts BSH and SBH have all heads in their last dimension."""
    if case.attrs.get("input_layout") not in ("BSH", "SBH"):
        return x.shape[-1]
    query, key, value = (decode(case.named()[y]).shape[-1] for y in ("query", "key", "value"))
    head = query // case.attrs["head_num"]
    return head if name in ("dq", "dk") else value // (key // head) if key else 0


def _compare_topk(label, case, indices):
    indices = indices.reshape(-1, *indices.shape[-2:])  # rows of packed queries
    for ref, plain in zip(_reference(case)[1], _plain(case)[1], strict=True):
        # Two scores may each be off by what float32 arithmetic costs.
        e = limit(error(plain.scores, ref.scores), "float32", what="topk")
        tolerance = e * np.abs(ref.scores[np.isfinite(ref.scores)]).max(initial=0)
        check_topk(
            f"{label} tokens {ref.rows.start}:{ref.rows.stop}",
            indices[ref.rows].swapaxes(0, 1),
            ref.scores,
            ref.candidate,
            ref.forced,
            tolerance,
        )
