"""Every error Headwater raises: one tree, each also a fitting builtin, each naming its remedy."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class HeadwaterError(Exception):
    """Root of all errors raised on purpose."""


@contextmanager
def noting(place: str) -> Iterator[None]:
    """Note on errors raised inside the place of the configuration that they are about, where none is noted yet."""
    try:
        yield
    except HeadwaterError as error:
        if place and not getattr(error, "__notes__", None):
            error.add_note(place)
        raise


class Transient(HeadwaterError):
    """Mix-in: the same call may succeed later, so the runner retries it."""


class ConfigError(HeadwaterError, ValueError):
    """The deployment's configuration cannot be used; the message names the place and what is allowed."""


class NotInstalled(HeadwaterError, ImportError):
    """A backend or source needs a package that is not here; the message names the extra to install."""


class NotSupported(HeadwaterError, NotImplementedError):
    """A declared gap: this backend does not offer this part of a port."""

    def __init__(self, port: str, backend: str, remedy: str) -> None:
        super().__init__(f"{backend} does not support {port}: {remedy}")
        self.port = port
        self.backend = backend


class BadInput(HeadwaterError, ValueError):
    """Input that no epoch can be made of (a file without a declared column, say)."""


class SumOverflow(HeadwaterError, OverflowError):
    """A sum is beyond what its column can hold; the message names the measure or column, and the group."""


class SchemaConflict(HeadwaterError, TypeError):
    """A stored table and the declared one differ by more than new columns."""


class EpochConflict(HeadwaterError, RuntimeError):
    """Another writer has committed to this pipeline; this one stops before it damages anything."""


class VersionNotFound(HeadwaterError, LookupError):
    """The version asked for was never made."""


class VersionExpired(HeadwaterError, LookupError):
    """The version asked for existed and has been cleaned away."""


class RetentionTooShort(HeadwaterError, LookupError):
    """A query was to take longer than the version that it reads is sure to be kept."""


class WaitTimeout(HeadwaterError, TimeoutError):
    """What was waited for has not come in time."""


class LeaseNotFound(HeadwaterError, LookupError):
    """There is no lease of that name: it was never taken, was taken back, or ended and was cleaned away."""


class StoreUnavailable(Transient, ConnectionError):
    """The table store cannot be reached or written just now."""


class TableDamaged(HeadwaterError, RuntimeError):
    """What a table or its log holds is not as it was written: a file is cut off, changed or lost."""


class ClusterUnavailable(Transient, ConnectionError):
    """The cluster that is to compute cannot be reached, or has nothing to spare just now."""


class SourceUnavailable(Transient, ConnectionError):
    """The source cannot be reached just now (a broker that is down, say)."""


class SinkUnavailable(Transient, ConnectionError):
    """The sink cannot be reached or written just now; what it lacks is published later."""


class SinkChanged(HeadwaterError, RuntimeError):
    """What the sink holds does not come from these tables, or they no longer hold what it lacks."""


class SourceChanged(HeadwaterError, RuntimeError):
    """What was read before is no longer what the source holds, so going on would lose or repeat rows."""
