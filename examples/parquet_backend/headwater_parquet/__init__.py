"""An example backend for Headwater: versioned tables in Parquet folders, computed with Polars."""

from injector import provider, singleton

from headwater.adapters.memory.queries import DuckQueries
from headwater.adapters.polars.engine import PolarsEngine
from headwater.app.config import Deployment
from headwater.app.registry.backends import Backend, Sources
from headwater.app.wiring.sources import PolarsSources
from headwater.domain.ports import FrameEngine, KeptStore, QueryEngine

from .store import ParquetStore


class ParquetBackend(Backend):
    """Stores tables in Parquet folders, and computes with Polars."""

    gaps = PolarsSources.gaps

    @singleton
    @provider
    def store(self, deployment: Deployment) -> KeptStore:
        return ParquetStore(deployment.backend.path or ".")

    @singleton
    @provider
    def engine(self) -> FrameEngine:
        return PolarsEngine()

    @singleton
    @provider
    def queries(self) -> QueryEngine:
        return DuckQueries()

    @singleton
    @provider
    def sources(self) -> Sources:
        return PolarsSources("parquet")
