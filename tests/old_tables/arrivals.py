"""What arrives at the deployment beside: before its folder was written, and after."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

Lines = list[dict[str, Any]]


def _signed(kind: str, project: int, contract: int, sign_time: str, amount: str) -> dict[str, Any]:
    return {"kind": kind, "project": project, "contract": contract, "sign_time": sign_time, "amount": amount}


def _order(kind: str, position: int, row: tuple[int, int, str, str, str], **old: Any) -> dict[str, Any]:
    data = dict(zip(("order_id", "user_id", "state", "amount", "mtime"), row, strict=True))
    message = {
        "database": "shop",
        "table": "orders",
        "type": kind,
        "ts": 1709283600 + position,
        "position": f"bin.000001:{position}",
        "xoffset": 0,
        "data": data,
    }
    return {**message, "old": old} if old else message


def _shop(kind: str, shop: int, name: str, city: str, updated_at: str) -> dict[str, Any]:
    return {"kind": kind, "shop_id": shop, "name": name, "city": city, "updated_at": updated_at}


def _stock(shop: int, items: int, seq: int) -> dict[str, Any]:
    return {"kind": "+U", "shop_id": shop, "items": items, "seq": seq}


def _account(kind: str, account: int, owner: int, balance: str, at: str) -> dict[str, Any]:
    return {"kind": kind, "account": account, "owner": owner, "balance": balance, "at": at}


def _owner(kind: str, owner: int, name: str, at: str) -> dict[str, Any]:
    return {"kind": kind, "owner": owner, "name": name, "at": at}


def _visit(at: str, page: str, visitor: str) -> dict[str, Any]:
    return {"at": at, "page": page, "visitor": visitor}


BEFORE: list[dict[str, Lines]] = [
    {
        "accounts": [{"account": 1, "owner": 1, "balance": "10.00"}, {"account": 2, "owner": 2, "balance": "20.00"}],
        "owners": [{"owner": 1, "name": "ann"}],
        "contracts": [
            _signed("+I", 1, 11, "2024-03-01T09:00:00Z", "5.00"),
            _signed("+I", 1, 12, "2024-03-02T09:00:00Z", "7.00"),
            _signed("+I", 2, 21, "2024-03-02T23:30:00Z", "1.00"),
        ],
        "orders": [
            _order("insert", 100, (1, 7, "new", "10.50", "2024-03-01 09:00:00")),
            _order("insert", 200, (2, 8, "new", "2.25", "2024-03-01 10:00:00")),
        ],
        "info": [_shop("+I", 1, "North", "Bergen", "2024-03-01T09:00:00Z")],
        "stock": [_stock(1, 9, 5), _stock(2, 4, 1)],
        "account_log": [
            _account("-U", 1, 1, "10.00", "2024-03-01T09:00:00Z"),
            _account("+U", 1, 1, "15.00", "2024-03-01T09:00:00Z"),
            _account("+I", 3, 1, "1.00", "2024-03-01T09:10:00Z"),
        ],
        "owner_log": [_owner("+I", 2, "bob", "2024-03-01T09:05:00Z"), _owner("+I", 3, "cat", "2024-03-01T09:20:00Z")],
        "visits": [
            _visit("2024-03-01T00:00:10Z", "a", "ann"),
            _visit("2024-03-01T00:00:40Z", "b", "ann"),
            _visit("2024-03-01T00:02:05Z", "a", "bob"),
        ],
    },
    {
        "contracts": [
            _signed("+I", 1, 13, "2024-03-01T08:00:00Z", "9.00"),
            _signed("-D", 2, 21, "2024-03-02T23:30:00Z", "1.00"),
            _signed("+I", 2, 22, "2024-03-05T10:00:00Z", "2.00"),
        ],
        "orders": [
            _order(
                "update", 300, (1, 7, "paid", "10.50", "2024-03-03 08:00:00"), state="new", mtime="2024-03-01 09:00:00"
            ),
            _order("insert", 400, (3, 9, "new", "1.00", "2024-03-04 08:00:00")),
        ],
        "info": [_shop("+U", 1, "North II", "Oslo", "2024-03-01T12:00:00Z")],
        "account_log": [_account("+I", 4, 2, "4.00", "2024-03-01T09:30:00Z")],
        "owner_log": [_owner("-U", 3, "cat", "2024-03-01T09:40:00Z"), _owner("+U", 3, "kit", "2024-03-01T09:40:00Z")],
        "visits": [_visit("2024-03-01T00:01:50Z", "a", "cat"), _visit("2024-03-01T00:05:00Z", "b", "cat")],
    },
]
"""The rows of each folder, epoch by epoch, that the old version has read."""

AFTER: list[dict[str, Lines]] = [
    {
        "contracts": [
            _signed("+I", 1, 14, "2024-03-01T10:00:00Z", "3.00"),
            _signed("-D", 1, 12, "2024-03-02T09:00:00Z", "7.00"),
            _signed("+I", 2, 23, "2024-03-03T10:00:00Z", "2.00"),
        ],
        "orders": [
            _order(
                "update", 500, (2, 8, "paid", "2.25", "2024-03-05 08:00:00"), state="new", mtime="2024-03-01 10:00:00"
            ),
            _order("delete", 600, (3, 9, "new", "1.00", "2024-03-04 08:00:00")),
        ],
        "info": [
            _shop("+U", 1, "North I", "Bonn", "2024-03-01T11:00:00Z"),
            _shop("+I", 2, "South", "Rome", "2024-03-01T11:00:00Z"),
        ],
        "stock": [_stock(1, 3, 6), _stock(2, 8, 0)],
        "account_log": [
            _account("-D", 3, 1, "1.00", "2024-03-01T10:00:00Z"),
            _account("-U", 4, 2, "4.00", "2024-03-01T10:05:00Z"),
            _account("+U", 4, 3, "4.00", "2024-03-01T10:05:00Z"),
            _account("+I", 9, 9, "0.00", "2024-03-01T11:00:00Z"),
        ],
        "owner_log": [_owner("+I", 9, "end", "2024-03-01T11:00:00Z")],
        "visits": [_visit("2024-03-01T00:04:30Z", "a", "dan"), _visit("2024-03-02T00:01:00Z", "a", "ann")],
    }
]
"""The rows of each folder that come when the new version goes on."""

VIEWS = (
    "contract_rank.ranks",
    "project_dim.projects",
    "order_states.totals",
    "shop.rows",
    "accounts.rows",
    "owners.rows",
    "balances.rows",
    "page_views.ticks",
)
"""What is asked of the deployment in the end."""


def write(folder: Path, number: int, rows: dict[str, Lines]) -> None:
    """Let an epoch's rows arrive in the folder of a deployment.

    Args:
        folder: the deployment's.
        number: of the epoch; files are read in the order of their names.
        rows: those of each folder of input.
    """
    (folder / "tags.csv").write_text("project,tag\n1,red\n2,blue\n", encoding="utf-8")
    for name, lines in rows.items():
        (folder / name).mkdir(exist_ok=True)
        file = folder / name / f"{number:03d}.json"
        file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
