"""Splits and merges of a table's regions, at random: it has between one and some six of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import rowlock

REGIONS_MAX = 6


class RegionChanges:
    """Used by one thread, the only one that splits and merges the table. rows: where it is split."""

    def __init__(self, client: rowlock.Client, table: str, rows: Sequence[bytes], generator: random.Random) -> None:
        self._client = client
        self._table = table
        self._rows = rows
        self._random = generator
        self.counts: Counter[str] = Counter()

    def change(self) -> None:
        """Splits a region, the likelier the fewer there are, or merges two neighbours."""
        regions = self._client.regions(self._table)
        if len(regions) <= self._random.randrange(1, REGIONS_MAX):
            self._split(regions)
        else:
            self._merge(regions)

    def _split(self, regions: Sequence[rowlock.RegionInfo]) -> None:
        if self._random.random() < 0.5:
            row = self._random.choice(self._rows)
            if row not in [region.start for region in regions]:
                self._client.split(self._table, row)
                self.counts["splits at a row"] += 1
            return
        region = self._random.choice([None, *regions])
        try:
            self._client.split(self._table, region=region)
        except rowlock.InvalidArgumentError:
            self.counts["splits of regions that are too small for a middle"] += 1
        else:
            self.counts["splits in the middle"] += 1

    def _merge(self, regions: Sequence[rowlock.RegionInfo]) -> None:
        second = self._random.randrange(1, len(regions))
        if self._random.random() < 0.5:
            self._client.merge(self._table, regions[second].start)
        else:
            self._client.merge(self._table, regions=regions[second - 1 : second + 1])
        self.counts["merges"] += 1
