"""An Airflow DAG: every ten minutes it reads what has arrived, and then uses the result.

Headwater may be installed in another environment than Airflow: only its command is used. Set HEADWATER to the path of
the command, and HEADWATER_CONFIG to that of the deployment file.
"""

import json
import os
import subprocess
from datetime import UTC, datetime, timedelta

from airflow.sdk import dag, task

HEADWATER = os.environ.get("HEADWATER", "headwater")
CONFIG = os.environ.get("HEADWATER_CONFIG", "/var/lib/headwater/deploy.toml")


def headwater(*arguments: str) -> str:
    """Run a command and return what it prints; its messages go to the log of the task."""
    return subprocess.run([HEADWATER, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


# Only one run at a time may write a pipeline: no second one begins while one is going on.
@dag(schedule=timedelta(minutes=10), start_date=datetime(2024, 1, 1, tzinfo=UTC), catchup=False, max_active_runs=1)
def headwater_orders() -> None:
    """Read what has arrived, then use a view."""

    @task(retries=2, retry_delay=timedelta(minutes=1))
    def run() -> None:
        # A retry is safe: it resumes from the newest publication.
        headwater("run", CONFIG, "--until-idle")

    @task
    def report() -> dict[str, int]:
        lines = headwater("show", CONFIG, "order_states", "--format", "jsonl").splitlines()
        return {row["state"]: row["orders"] for row in map(json.loads, lines)}

    run() >> report()


headwater_orders()
