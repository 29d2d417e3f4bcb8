"""Which files of a Hudi file group are needed, compared with what each version is read from."""

from __future__ import annotations

from itertools import zip_longest

from hypothesis import given
from hypothesis import strategies as st

from headwater.adapters.hudi.file_groups import DataFile, FileGroup, Slice

INSTANTS = [f"{number:02}" for number in range(20)]


@st.composite
def groups(draw: st.DrawFn) -> FileGroup:
    """A file at each of some instants, the first of which begins a slice; replaced after them, or not."""
    written = sorted(draw(st.sets(st.sampled_from(INSTANTS[:15]), min_size=1)))
    begins = [written[0], *(each for each in written[1:] if draw(st.booleans()))]
    slices = []
    for begun, later in zip_longest(begins, begins[1:], fillvalue=INSTANTS[15]):
        own = tuple(DataFile(f"file-{each}", each, 1) for each in written if begun <= each < later)
        slices.append(
            Slice(begun, draw(st.sampled_from([f"{each}+" for each in INSTANTS if begun <= each < later])), own)
        )
    return FileGroup(tuple(slices), draw(st.sampled_from([None, *INSTANTS[15:]])))


def may_be_read_from(group: FileGroup, version: str) -> set[DataFile]:
    """The files that a version is read from, or was, while the slice that it is read from now was not complete."""
    if group.replaced is not None and version >= group.replaced:
        return set()
    begun = [each for each in group.slices if each.begun <= version]
    overlapping = len(begun) > 1 and begun[-1].begun < version < begun[-1].completed
    slices = begun[-2:] if overlapping else begun[-1:]
    return {file for each in slices for file in each.files if file.instant <= version}


@given(groups(), st.sets(st.sampled_from(INSTANTS)))
def test_every_file_is_unneeded_that_no_kept_version_is_read_from(group: FileGroup, kept: set[str]) -> None:
    files = {file for each in group.slices for file in each.files}
    needed = {file for version in kept for file in may_be_read_from(group, version)}
    assert set(group.unneeded(sorted(kept))) == files - needed


@given(groups(), st.sampled_from(INSTANTS))
def test_a_version_is_read_from_the_newest_slice_begun_by_then(group: FileGroup, version: str) -> None:
    found, possible = set(group.read_from(version)), may_be_read_from(group, version)
    assert found <= possible
    assert bool(found) == bool(possible)
    assert any(found <= set(each.files) for each in group.slices)
