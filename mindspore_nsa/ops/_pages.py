"""The contents of a block_table, checked at the call where they can be read."""

from typing import Any

import numpy as np
from mindspore import Tensor

from ._constexpr import Constexpr


class PageCheck(Constexpr):
    """Raises the error of a page that a cache does not have.

    In PyNative mode the operator itself would find it too late: its error comes at the next
    synchronisation. In a graph the contents are not known before it runs, so there this is nothing.
    """

    def __init__(self) -> None:
        super().__init__("CheckPages")

    def __call__(
        self,
        function: str,
        name: str,
        table: Any,
        lengths: Any,
        cache: Any,
        layout: str = "BSND",
        block: int = 1,
        stride: int = 1,
    ) -> bool:
        """Every row reads (n - block) // stride + 1 tokens, n being its length."""
        if table is None:
            return True
        if isinstance(lengths, Tensor):
            lengths = lengths.tolist()
        lengths = np.asarray(lengths, np.int64)  # signed, whatever the elements of a list are
        tokens = np.maximum((lengths - block) // stride + 1, 0)
        pages, page = cache.shape[0], cache.shape[1 if layout == "BSND" else 2]
        values = table.asnumpy()
        used = np.arange(values.shape[1]) < -(-tokens // page)[:, None]
        wrong = used & ((values < 0) | (values >= pages))
        if wrong.any():
            row, place = np.argwhere(wrong)[0]
            raise ValueError(
                f"{function}: {name} must be of pages in [0, {pages}), got "
                f"{values[row, place]} at place {place} of row {row}"
            )
        return True

    def __infer__(self, *args: Any) -> dict[Any, Any]:
        return {"dtype": None, "shape": None, "value": True}


check_pages = PageCheck()
