"""Loops over tiles, where the random sizes end within the first: one less, as many, one more, and
two tiles and one."""

from functools import partial

import pytest

from mindspore_nsa import _native
from mindspore_nsa.testing.case import compare
from mindspore_nsa.testing.dtypes import DTYPES
from tests.common import decode_cases, indexer_cases
from tests.common.draw import DIMS, Draw
from tests.common.flash_cases import flash_attention_score_grad_of
from tests.common.nsa_cases import selected_attention_grad_of, selected_attention_of
from tests.common.parity import flash
from tests.common.tiles import around, tile

from .sweep import instruction_set

FLASH, SELECTED = "cpu/flash_attention_score/entry.cc", "cpu/nsa_selected_attention/entry.cc"
INDEXER, LOSS = "cpu/lightning_indexer/entry.cc", "cpu/lightning_indexer/kl_loss_plan.h"
ENTRY = "cpu/lightning_indexer/kl_entry.cc"
GATHERED, PICKS = "cpu/engine/step/gathered_tokens.h", "cpu/engine/plan/topk_tokens.h"
SPLIT = tile("kDecodeSplitKeys", "cpu/nsa_decode/decode_plan.h")
# Windows begin at every token, so caches of windows are as long as those of tokens but for one.
RULE = {
    "compress_block_size": 2,
    "compress_stride": 1,
    "select_block_size": 2,
    "select_block_count": 5,
}


class _Narrow(Draw):
    """Few dimensions and heads: a size counts here, and costs time."""

    def pick(self, choices):
        return super().pick(choices[:2] if choices in (DIMS, (1, 2, 4, 16)) else choices)


def _keys(make, draw, size):
    return make(draw, ([3, 2], [size, 5], draw.chance(0.5)))


def _queries(make, draw, size):
    return make(draw, ([size], [size + 2], False))


def _picks(make, draw, size):
    return make(draw, ([3], [size + 40], False), size)


def _flash(draw, s1, s2, mode):
    forward = flash(draw, "BSND", batch=1, n1=1, n2=1, s1=s1, s2=s2, d=7, mode=mode)
    return flash_attention_score_grad_of(forward, draw)


def _selected(draw, queries):
    forward = selected_attention_of(draw, 16, 2, (1, 1), 7, [queries], [150], False, None)
    return selected_attention_grad_of(forward, draw)


def _tokens(make, draw, size, **rest):
    return make(draw, lengths=(size, 1, 3), groups=(1, 16), dims=(16, 7), **rest)


# Each loop over tiles: the constant, its header, and a call of so many.
EDGES = {
    "attended keys of the dense loss": (
        *("kPackedKeys", LOSS, partial(_keys, indexer_cases.dense_kl_loss)),
    ),
    "keys of a work item of the dense loss": (
        *("kWorkItemKeys", LOSS, partial(_keys, indexer_cases.dense_kl_loss)),
    ),
    "queries of the dense loss": (
        *("kIndexRows", ENTRY, partial(_queries, indexer_cases.dense_softmax_lse)),
    ),
    "attended queries of the dense loss": (
        *("kAttentionRows", ENTRY, partial(_queries, indexer_cases.dense_kl_loss)),
    ),
    "picks of the sparse loss": (
        *("kGatherRows", GATHERED, partial(_picks, indexer_cases.sparse_kl_loss)),
    ),
    "picks of the sparse attention": (
        *("kGatherRows", GATHERED, partial(_picks, indexer_cases.sparse_flash_attention)),
    ),
    "picks of the sparse attention's gradient": (
        *("kGatherRows", GATHERED, partial(_picks, indexer_cases.sparse_flash_attention_grad)),
    ),
    "picks of the indexer's gradient": (
        *("kTopkStep", PICKS, partial(_picks, indexer_cases.lightning_indexer_grad)),
    ),
    "keys of the indexer": (
        *("kTopkStep", PICKS, partial(_keys, indexer_cases.lightning_indexer)),
    ),
    "queries of the indexer": (
        *("kTopkRows", INDEXER, partial(_queries, indexer_cases.lightning_indexer)),
    ),
    "keys of a gradient in few parts": (
        *("kWholeKeys", FLASH, lambda draw, size: _flash(draw, 5, size, 0)),
    ),
    "queries of a gradient's chunk": (
        *("kChunkRows", FLASH, lambda draw, size: _flash(draw, size, 60, 0)),
    ),
    "queries of a causal gradient's chunk": (
        *("kFewKeys", FLASH, lambda draw, size: _flash(draw, size, size // 8, 3)),
    ),
    "queries of a chunk of selected blocks": ("kGradChunkRows", SELECTED, _selected),
}
DECODING = {
    "decoding": lambda draw, size: _tokens(
        decode_cases.nsa_decode, draw, size, rule=RULE, window=size
    ),
    "windows of a cache": lambda draw, size: _tokens(
        decode_cases.nsa_compress_attention_infer, draw, size + 1, rule=RULE
    ),
    "selected tokens of a cache": lambda draw, size: _tokens(
        decode_cases.nsa_selected_attention_infer, draw, size, every=2
    ),
}


def _edges(size):
    return [*around(size), 2 * size + 1]


def _check(make, size):
    for number, length in enumerate(_edges(size)):
        case = make(_Narrow(number, DTYPES[number % len(DTYPES)]), length)
        for isa in _native.available_isas():
            with instruction_set(isa):
                outputs = _native.run(case.op, case.inputs, case.attrs, num_threads=2)
            case.name = f"{length} of {size} on {isa}"
            compare(case, outputs)


@pytest.mark.parametrize("name", EDGES)
def test_edges(name):
    constant, header, make = EDGES[name]
    _check(make, tile(constant, header))


@pytest.mark.parametrize("name", DECODING)
def test_splits_of_a_cache(name):
    _check(DECODING[name], SPLIT)
