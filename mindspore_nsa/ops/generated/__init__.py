"""Calls and gradients of the native operators by the names of their inputs.

A file has an operator and its gradient.

call_...: Calls the operator. `c` has what a plan knows of a call: the dtype that an input is cast
    to, and what is passed for a list or an optional input; None: the argument as it is. A graph of
    a bprop takes `c` for a tuple without names, so it is unpacked.
bprop_of_...: Makes the operator's bprop. `gradient` is the operator that computes the gradients, or
    a function of `out` and `dout`; `given` says which lists and optional inputs are arguments of
    the call. An input without a gradient has zeros. One that is a constant of the plan stands for
    its own gradient, which goes nowhere.
aclnn_..., aclnn_bprop_of_...: The function of CANN's package with the operator's inputs. `c` has
    the values that the host knows, whether an optional Tensor is given, the form of a list (see
    `host_list`), and the dtype of one that the device reads; None: it is absent. A bprop returns
    anything for an argument that is no Tensor.

Written by tools/generate_calls.py: change it there, then run `make generate`.
"""

# fmt: off
from . import (
    block_indexer,
    dense_lightning_indexer_grad_kl_loss,
    dense_lightning_indexer_softmax_lse,
    flash_attention_score,
    lightning_indexer,
    nsa_cache_step,
    nsa_compress,
    nsa_compress_attention,
    nsa_compress_attention_infer,
    nsa_compress_with_cache,
    nsa_decode,
    nsa_selected_attention,
    nsa_selected_attention_infer,
    sparse_flash_attention,
    sparse_lightning_indexer_grad_kl_loss,
)
from .refusals import REFUSALS as REFUSALS

_FILES = (
    block_indexer, dense_lightning_indexer_grad_kl_loss, dense_lightning_indexer_softmax_lse,
    flash_attention_score, lightning_indexer, nsa_cache_step, nsa_compress, nsa_compress_attention,
    nsa_compress_attention_infer, nsa_compress_with_cache, nsa_decode, nsa_selected_attention,
    nsa_selected_attention_infer, sparse_flash_attention, sparse_lightning_indexer_grad_kl_loss,
)
STAND_INS = {op: made for file in _FILES for op, made in file.STAND_INS.items()}
GIVEN = {op: made for file in _FILES for op, made in file.GIVEN.items()}
ACLNN = {op: made for file in _FILES for op, made in file.ACLNN.items()}
