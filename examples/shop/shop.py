"""The six services over the files of a small shop; the same as shop.toml and notebooks/shop.ipynb."""

from headwater import Headwater

hw = Headwater(backend="memory")

hw.files(
    "orders",
    "in/orders",
    schema="`order` bigint, customer string, amount decimal(8,2), at timestamp",
    event_time="at",
    watermark_delay="30m",
)
hw.files(
    "states",
    "in/states",
    schema="kind string, `order` bigint, state string, amount decimal(8,2), changed timestamp",
    row_kind="kind",
    event_time="changed",
)
hw.files("prices", "in/prices", schema="article string, price decimal(8,2), at timestamp", event_time="at")
hw.files("stock", "in/stock", schema="article string, pieces int, at timestamp", event_time="at")
hw.files(
    "moves",
    "in/customers",
    schema="kind string, customer string, city string, at timestamp",
    row_kind="kind",
    event_time="at",
)

# Which order of this customer is this, over all history?
hw.ranking("order_rank", source="orders", group=["customer"], id=["order"], order_by="at")

# How many orders are in each state now?
hw.retraction(
    "order_states",
    source="states",
    group=["state"],
    measures={"orders": "count(*)", "amount": "sum(amount)"},
    updated_at="changed",
)

# One row an article, joined from two topics.
hw.wide_table(
    "articles",
    key=["article"],
    topics={
        "prices": {"source": "prices", "columns": ["price"], "sequence": ["at"]},
        "stock": {"source": "stock", "columns": ["pieces"], "sequence": ["at"]},
    },
)

# A version of this table that a long query can finish on.
hw.snapshots(
    "worth",
    inputs={"articles": "articles.rows"},
    tables={"worth": "SELECT article, pieces, cast(price * pieces AS decimal(18,2)) AS worth FROM articles"},
    every="15m",
)

# A table that is loaded from a dump while its changes go on.
hw.bulk_merge(
    "customers",
    changelog="moves",
    key=["customer"],
    columns=["city"],
    bulk={"path": "dump", "format": "json", "search_ts": "2024-03-01T09:00:00Z"},
)

# Today's customers so far, a point every ten minutes.
hw.cumulate(
    "today",
    source="orders",
    step="10m",
    measures={"orders": "count(*)", "customers": "count(distinct customer)"},
)

hw.run(until_idle=True)
