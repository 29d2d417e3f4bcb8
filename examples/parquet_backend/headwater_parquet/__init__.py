"""A backend for Headwater: versioned tables in Parquet folders, frames of Polars."""

from injector import provider, singleton

from headwater.adapters.memory.engine import PolarsEngine
from headwater.adapters.memory.queries import DuckQueries
from headwater.app.backends import Backend, Sources
from headwater.app.config import Deployment
from headwater.app.sources import PolarsSources
from headwater.domain.ports import FrameEngine, KeptStore, QueryEngine

from .store import ParquetStore


class ParquetBackend(Backend):
    """Tables in Parquet folders, frames of Polars."""

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
