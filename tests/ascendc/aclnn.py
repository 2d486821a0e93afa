"""The operators' aclnn functions through ctypes."""

from functools import partial

from mindspore_nsa import twin
from twin.tests.host import acl

lib = acl.load(twin.library())
first_phase = partial(acl.first_phase, library=lib)
second_phase = partial(acl.second_phase, library=lib)
