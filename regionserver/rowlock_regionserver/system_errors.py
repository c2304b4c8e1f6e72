"""What the system's error numbers mean."""

from __future__ import annotations

import errno

# A full disk or quota.
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
# A lack of descriptors, and of anything that the process or the machine has too little of.
NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})
NO_RESOURCES = NO_DESCRIPTOR | {errno.ENOMEM, errno.ENOBUFS}
