"""`python -m mindspore_nsa`: what `mindspore_nsa.show_config()` prints."""

from ._config import show_config

show_config()
