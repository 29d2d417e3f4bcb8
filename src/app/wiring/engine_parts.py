"""The parts of a deployment on one engine."""

from __future__ import annotations

from contextlib import ExitStack

from injector import Binder, Injector, UnsatisfiedRequirement

from ...domain.errors import NotSupported
from ...domain.ledger.generation_store import GenerationBase, GenerationStore
from ...domain.ports import BaseReading, FrameEngine, KeptStore, QueryEngine
from ..config import Deployment
from ..registry.backends import Backend, Gap, Part, Sources


class EngineParts:
    """The parts of a deployment on one engine. An engine starts when it is first requested.

    Args:
        deployment: to build.
        backend: provides the parts.
        exits: closes what the parts open.
    """

    def __init__(self, deployment: Deployment, backend: type[Backend], exits: ExitStack) -> None:
        self.deployment = deployment
        self.backend = backend
        self._exits = exits
        self.started = False
        self._injector = Injector([self._shared, backend()], auto_bind=False)
        self._store: GenerationStore | None = None

    @property
    def engine(self) -> FrameEngine:
        self.started = True
        return self._injector.get(FrameEngine)

    @property
    def store(self) -> GenerationStore:
        """The store; it has the current generation of each pipeline's tables."""
        if self._store is None:
            self._store = GenerationStore(self._injector.get(KeptStore))
        return self._store

    def renew_store(self) -> None:
        """From now on, have a store that looks up the generations again; what was opened before stays as it is."""
        self._store = None

    @property
    def sources(self) -> Sources:
        return self._injector.get(Sources)

    @property
    def base(self) -> BaseReading:
        """The store, for reading base files only.

        Raises:
            NotSupported: the backend's tables have no log next to their base files.
        """
        if isinstance(base := self.store.store, BaseReading):
            return GenerationBase(self.store, base)
        raise self._gap(Part.BASE_FILES, "read the view itself")

    @property
    def queries(self) -> QueryEngine:
        """The engine for user-supplied SQL.

        Raises:
            NotSupported: the backend runs no SQL.
        """
        refused = self._gap(Part.SQL, "choose a backend that runs it, such as delta or memory")
        if not self.backend.offers(Part.SQL):
            raise refused
        try:
            return self._injector.get(QueryEngine)
        except UnsatisfiedRequirement as error:
            raise refused from error

    def _gap(self, part: Part, remedy: str) -> NotSupported:
        """The error of a gap that the backend declares; if it declares none, an error with this remedy."""
        declared = next((gap for gap in self.backend.gaps if gap.part is part), Gap(part, remedy))
        return declared.error(self.deployment.backend.name)

    def _shared(self, binder: Binder) -> None:
        """Bind the values that every backend may request."""
        binder.bind(Deployment, to=lambda: self.deployment)  # a program may declare more later
        binder.bind(ExitStack, to=self._exits)
