"""Random arrivals and limits: every file is read once, epochs are as large as allowed, and the result is the same."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater import Headwater
from headwater.adapters.files.listing import FilesSettings
from headwater.adapters.files.polars_source import PolarsFileSource
from headwater.domain.source.epoch_size import EpochSize
from headwater.domain.source.record_spec import RecordSpec
from headwater.domain.table.schema import Schema
from headwater.testing.clock import NOW
from tests.configurations import ranked_contracts

from .effort import examples

if TYPE_CHECKING:
    from headwater.domain.epoch.epoch import Offsets

ROWS = st.lists(st.tuples(st.integers(1, 2), st.integers(1, 5), st.integers(0, 9)), max_size=4)
ARRIVALS = st.lists(st.lists(ROWS, max_size=4), min_size=1, max_size=4)
"""Files of rows (project, contract, hour), in the groups in which they arrive."""
LIMITS = st.tuples(st.none() | st.integers(1, 4), st.none() | st.integers(1, 400))
"""The largest number of files and of bytes in an epoch."""


def write(folder: Path, number: int, rows: list[tuple[int, int, int]]) -> None:
    lines = (
        json.dumps({"project": project, "contract": contract, "signed": f"2024-03-01 {hour:02d}:00:00"}) + "\n"
        for project, contract, hour in rows
    )
    (folder / f"{number:03d}.json").write_text("".join(lines))


@settings(max_examples=examples(150))
@given(ARRIVALS, LIMITS)
def test_every_file_is_read_once_and_epochs_are_as_large_as_allowed(
    arrivals: list[list[list[tuple[int, int, int]]]], limits: tuple[int | None, int | None]
) -> None:
    files, size = limits
    with TemporaryDirectory() as name:
        folder, after, read = Path(name), None, list[str]()
        source = PolarsFileSource(FilesSettings(name, files, EpochSize(bytes=size)), RecordSpec(Schema.parse("id int")))
        for group in arrivals:
            for rows in group:
                write(folder, len(list(folder.iterdir())), rows)
            epochs = list[list[str]]()
            while planned := source.plan(after, NOW):
                after = planned.until
                epochs.append(names_of(after))
            for now, following in pairwise([*epochs, []]):
                assert fits(folder, now, files, size) or len(now) == 1
                assert not following or not fits(folder, [*now, following[0]], files, size)
            read += [each for epoch in epochs for each in epoch]
            assert read == sorted(each.name for each in folder.iterdir())


def names_of(offsets: Offsets) -> list[str]:
    """The files of the epoch that ended at these offsets."""
    return list(offsets["newest"])[-offsets["epoch"] :]


def fits(folder: Path, names: list[str], files: int | None, size: int | None) -> bool:
    within = len(names) <= (files or (1 if size is None else len(names)))
    return within and (size is None or sum((folder / name).stat().st_size for name in names) <= size)


@settings(max_examples=examples(30), deadline=None)
@given(ARRIVALS, LIMITS)
def test_the_result_is_the_same_however_files_are_divided_into_epochs(
    arrivals: list[list[list[tuple[int, int, int]]]], limits: tuple[int | None, int | None]
) -> None:
    files, size = limits
    everything = [[rows for group in arrivals for rows in group]]
    assert ranks(arrivals, files, size).equals(ranks(everything, 1, None))


def ranks(arrivals: list[list[list[tuple[int, int, int]]]], files: int | None, size: int | None) -> pl.DataFrame:
    """The ranks after each group of files has arrived and been read."""
    limits = {"files_per_epoch": files, "max_bytes_per_epoch": size}
    source = "".join(f"{key} = {value}\n" for key, value in limits.items() if value is not None)
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        config = folder / "deploy.toml"
        config.write_text(ranked_contracts(source=f'kind = "files"\npath = "in"\n{source}'))
        with Headwater.from_config(config) as headwater:
            for group in arrivals:
                for rows in group:
                    write(folder / "in", len(list((folder / "in").iterdir())), rows)
                headwater.run(until_idle=True)
            found = headwater.view("ranked.ranks")
            assert isinstance(found, pl.DataFrame)
            return found.select("project", "contract", "rank").sort("project", "contract")
