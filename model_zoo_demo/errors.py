"""Errors that a user can correct, told in one line instead of a traceback."""


class InputError(Exception):
    """An argument, a config or a file that cannot be used; the text says what and why."""
