"""The operators as MindSpore functions, for PyNative and graph mode."""

from ._environment import check_environment

check_environment()

from ._sequence import compressed_seq_len  # noqa: E402
from .block_indexer import block_indexer  # noqa: E402
from .compressor import compressor  # noqa: E402
from .dense_lightning_indexer_grad_kl_loss import (  # noqa: E402
    dense_lightning_indexer_grad_kl_loss,
)
from .dense_lightning_indexer_softmax_lse import (  # noqa: E402
    dense_lightning_indexer_softmax_lse,
)
from .dropout_mask import dropout_mask  # noqa: E402
from .flash_attention_score import flash_attention_score  # noqa: E402
from .lightning_indexer import lightning_indexer  # noqa: E402
from .lightning_indexer_kl_loss import lightning_indexer_kl_loss  # noqa: E402
from .lightning_indexer_v2 import lightning_indexer_v2  # noqa: E402
from .nsa_compress import nsa_compress  # noqa: E402
from .nsa_compress_attention import nsa_compress_attention  # noqa: E402
from .nsa_compress_attention_infer import nsa_compress_attention_infer  # noqa: E402
from .nsa_compress_with_cache import nsa_compress_with_cache  # noqa: E402
from .nsa_decode import nsa_decode  # noqa: E402
from .nsa_selected_attention import nsa_select_attention, nsa_selected_attention  # noqa: E402
from .nsa_selected_attention_infer import nsa_selected_attention_infer  # noqa: E402
from .sparse_flash_attention import sparse_flash_attention  # noqa: E402
from .sparse_flash_mla import sparse_flash_mla  # noqa: E402
from .sparse_lightning_indexer_grad_kl_loss import (  # noqa: E402
    sparse_lightning_indexer_grad_kl_loss,
)
from .sparse_lightning_indexer_kl_loss_grad import (  # noqa: E402
    sparse_lightning_indexer_kl_loss_grad,
)

__all__ = [
    "block_indexer",
    "compressed_seq_len",
    "compressor",
    "dense_lightning_indexer_grad_kl_loss",
    "dense_lightning_indexer_softmax_lse",
    "dropout_mask",
    "flash_attention_score",
    "lightning_indexer",
    "lightning_indexer_kl_loss",
    "lightning_indexer_v2",
    "nsa_compress",
    "nsa_compress_attention",
    "nsa_compress_attention_infer",
    "nsa_compress_with_cache",
    "nsa_decode",
    "nsa_select_attention",
    "nsa_selected_attention",
    "nsa_selected_attention_infer",
    "sparse_flash_attention",
    "sparse_flash_mla",
    "sparse_lightning_indexer_grad_kl_loss",
    "sparse_lightning_indexer_kl_loss_grad",
]
