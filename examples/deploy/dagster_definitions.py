"""Dagster assets: the tables of a deployment, and a report that reads one of their views.

Headwater is installed beside Dagster, and used by its Python API. Set HEADWATER_CONFIG to the path of the deployment
file.
"""

import os

import dagster as dg

from headwater import Headwater

CONFIG = os.environ.get("HEADWATER_CONFIG", "/var/lib/headwater/deploy.toml")


# Only one run at a time may write a pipeline: runs of assets with the same pool wait for each other.
# A retry is safe: it resumes from the newest publication.
@dg.asset(pool="headwater", retry_policy=dg.RetryPolicy(max_retries=2, delay=60))
def order_states() -> dg.MaterializeResult:
    """Orders by state, up to what has arrived."""
    with Headwater.from_config(CONFIG) as headwater:
        headwater.run(until_idle=True)
        (status,) = headwater.status()
    assert status.publication is not None, "nothing has arrived yet"
    return dg.MaterializeResult(
        data_version=dg.DataVersion(str(status.publication.epoch.number)),
        metadata={"epoch": status.publication.epoch.number, "dead letters": status.dead_letters},
    )


@dg.asset(deps=[order_states])
def open_orders(context: dg.AssetExecutionContext) -> dict[str, int]:
    """The number of orders in each state."""
    with Headwater.from_config(CONFIG) as headwater:
        rows = headwater.view("order_states").to_dicts()
    found = {row["state"]: row["orders"] for row in rows}
    context.log.info("%s", found)
    return found


every_ten_minutes = dg.ScheduleDefinition("every_ten_minutes", cron_schedule="*/10 * * * *", target="*")
defs = dg.Definitions([order_states, open_orders], schedules=[every_ten_minutes])
