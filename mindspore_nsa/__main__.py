"""`python -m mindspore_nsa`: what `mindspore_nsa.show_config()` prints."""

import sys

from ._config import show_config

try:
    show_config()
except (ImportError, ValueError) as error:
    sys.exit(str(error))
