"""Broken builds of clipped store files: rows of other regions are seen, written or salvaged."""

from __future__ import annotations

from .broken_build import Mutant

COMPACTING = "unit/region/test_compacting_clipped.py"
FOLDERS = "unit/host/test_clipped_folders.py"
CLIPPING = "unit/storefile/test_clipping.py"
ANSWERS = f"{CLIPPING}::test_no_read_answers_with_rows_outside_of_the_clip"

CLIPPED = [
    Mutant(
        "a compaction reads past the clip",
        "_Merge.__init__",
        "        self._sources = [run for file in inputs for run in file.runs]\n",
        "        self._sources = [getattr(run, '_run', run) for file in inputs for run in file.runs]\n",
        f"{COMPACTING}::test_the_output_has_the_rows_that_count_and_is_not_clipped",
    ),
    Mutant(
        "a get finds rows outside of the clip",
        "ClippedRun.row_cells",
        " if row in self._clip else ()",
        "",
        ANSWERS,
    ),
    Mutant(
        "a get of columns finds rows outside of the clip",
        "ClippedRun.columns_cells",
        " if row in self._clip else ()",
        "",
        ANSWERS,
    ),
    Mutant(
        "a scan backwards begins behind the clip",
        "ClippedRun.read_rows",
        "        within = self._clip.within(start, stop)\n",
        "        within = self._clip.within(start, stop)\n"
        "        within = Clip(self._clip.start, stop) if reverse and within is not None else within\n",
        ANSWERS,
    ),
    Mutant(
        "the clip's bound is inside",
        "Clip.__contains__",
        "row < self.stop",
        "row <= self.stop",
        ANSWERS,
    ),
    Mutant(
        "a row group that the clip cuts counts as a whole one",
        "Clip.of_groups",
        'b"" if self._has(groups.bounds(place)) else cut',
        'b""',
        f"{CLIPPING}::test_a_row_group_that_the_clip_cuts_is_equal_only_to_one_with_the_same_cut",
    ),
    Mutant(
        "a clip of a clip forgets the first one",
        "clipped_info",
        "    clip = region.within(info.clip_start, info.clip_stop)\n",
        "    clip = region\n",
        f"{CLIPPING}::test_clips_of_clips_become_smaller",
    ),
    Mutant(
        "a server of an earlier version opens a manifest with clips and ignores them",
        "Manifest.format_version",
        "_VERSION_OF_WHOLE_FILES if is_whole else _VERSION_OF_CLIPPED_FILES",
        "_VERSION_OF_WHOLE_FILES",
        "unit/region/test_manifest.py::test_a_server_of_version_2_refuses_one_with_clipped_or_renumbered_files",
    ),
    Mutant(
        "the header of a linked file must have its new number",
        "metadata_extent",
        "info.header_number",
        "info.number",
        f"{CLIPPING}::test_a_linked_file_may_have_another_number_than_its_header",
    ),
    Mutant(
        "of a damaged file all rows are salvaged",
        "_clipped",
        "    if info is None or not info.is_clipped:\n",
        "    if True:\n",
        f"{FOLDERS}::test_of_a_damaged_file_the_rows_that_count_are_salvaged",
    ),
]
