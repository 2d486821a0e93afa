"""The version of the package, kept here alone."""

__version__ = "0.4.0.dev0"
