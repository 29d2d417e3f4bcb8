"""Which files of a Hudi file group are needed, compared with what each version is read from."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.adapters.hudi.groups import DataFile, FileGroup, Slice

INSTANTS = [f"{number:02}" for number in range(20)]


@st.composite
def groups(draw: st.DrawFn) -> FileGroup:
    """A base file or a log at each of some instants, the first of which begins a slice; replaced after them, or not."""
    written = sorted(draw(st.sets(st.sampled_from(INSTANTS[:15]), min_size=1)))
    begins = [written[0], *(each for each in written[1:] if draw(st.booleans()))]
    slices = []
    for place, begun in enumerate(begins):
        later = begins[place + 1 :]
        own = [each for each in written if begun <= each and (not later or each < later[0])]
        slices.append(Slice(begun, tuple(DataFile(f"file-{each}", each, 1) for each in own)))
    return FileGroup(tuple(slices), draw(st.sampled_from([None, *INSTANTS[15:]])))


def read_from(group: FileGroup, version: str) -> set[DataFile]:
    """The files that a version is read from: those of the newest slice by then that had been written by then."""
    begun = [each for each in group.slices if each.begun <= version]
    if not begun or (group.replaced is not None and version >= group.replaced):
        return set()
    return {file for file in begun[-1].files if file.instant <= version}


@given(groups(), st.sets(st.sampled_from(INSTANTS)))
def test_every_file_is_unneeded_that_no_kept_version_is_read_from(group: FileGroup, kept: set[str]) -> None:
    files = {file for each in group.slices for file in each.files}
    needed = {file for version in kept for file in read_from(group, version)}
    # A log between two kept versions of one slice is read by the later one.
    assert set(group.unneeded(sorted(kept))) == files - needed
