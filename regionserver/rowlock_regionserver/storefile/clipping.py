"""What a store file is in a region with fewer rows: its entry in the manifest of a daughter or of a merged region."""

from __future__ import annotations

from dataclasses import replace

from rowlock_regionserver.storefile.clip import Clip
from rowlock_regionserver.storefile.info import StoreFileInfo
from rowlock_regionserver.storefile.reader import StoreFile


def clipped_info(file: StoreFile, start: bytes, stop: bytes) -> StoreFileInfo | None:
    """Returns the entry of the file for a region with the rows [start, stop); an empty stop means no bound.

    None: no row of the file can be in the region. Returns the present entry if all rows that count lie in the region.
    Known from the index, so nothing is read: a file without a row of the region may be clipped to a range inside one of
    its blocks.
    """
    info, region = file.info, Clip(start, stop)
    clip = region.within(info.clip_start, info.clip_stop)
    if clip is None or all(run.empty_until(*clip) is None for run in file.runs):
        return None
    if file.first_row in region and file.last_row in region:
        return info
    return replace(info, clip_start=clip.start, clip_stop=clip.stop)
