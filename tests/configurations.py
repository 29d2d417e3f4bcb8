"""The deployment that most tests run: contracts of projects, ranked by the time they were signed."""

from __future__ import annotations

FILES = 'kind = "files"\npath = "in"\n'
SCHEMA = "project bigint, contract bigint, signed timestamp"


def ranked_contracts(
    *,
    backend: str = 'name = "memory"\n',
    run: str = "",
    source: str = FILES,
    schema: str = SCHEMA,
    pipeline: str = "",
) -> str:
    """A deployment as TOML.

    Args:
        backend: what stands under ``[backend]``.
        run: what stands under ``[run]``; without, there is no such table.
        source: where contracts come from.
        schema: what they hold.
        pipeline: what else the pipeline is told.
    """
    return (
        f"[backend]\n{backend}"
        + (f"[run]\n{run}" if run else "")
        + f'[sources.contracts]\n{source}schema = "{schema}"\nevent_time = "signed"\n'
        + '[pipelines.ranked]\nservice = "ranking"\nsource = "contracts"\ngroup = ["project"]\nid = ["contract"]\n'
        + f'order_by = "signed"\n{pipeline}'
    )


def on_backend(name: str, path: str = "lake") -> str:
    """What stands under ``[backend]`` for tables at a path; those of Delta are read and written by Spark."""
    engine = 'engine = "spark"\n' if name == "delta" else ""
    return f'name = "{name}"\npath = "{path}"\n{engine}'
