"""What a user can put right, told in one line instead of a traceback."""


class InputError(Exception):
    """An argument, a config or a file that cannot be used; the text says what and why."""
