#!/usr/bin/env python3
"""Put Torchlight beside its peers: one table per family of shapes, with ratios to the fastest peer.

usage: compare.py FILE.json ...
Reads what pytorch_sdpa.py, onnxruntime_webgpu.py and `torchlight bench sdpa` wrote with --json. A row with a `route` is
Torchlight's, one with a `backend` a peer's. A ratio is a time over that of the fastest peer: below 1 is faster."""
from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from measurement import Shape, shape_of

TORCHLIGHT = "torchlight"


@dataclass(frozen=True)
class Timed:
    """One row of one file."""

    who: str
    shape: Shape
    p50: float
    p90: float
    how: str

    @property
    def ours(self) -> bool:
        return self.who.startswith(TORCHLIGHT)


def fail(message: str) -> NoReturn:
    print(f"compare.py: {message}", file=sys.stderr)
    sys.exit(1)


def read(path: Path) -> tuple[str, list[Timed]]:
    """The device and the rows of a file."""
    try:
        document = json.loads(path.read_text())
    except OSError as error:
        fail(f"{path}: {error.strerror}")
    except json.JSONDecodeError as error:
        fail(f"{path} is not JSON: {error}")
    if not isinstance(document, dict) or not isinstance(document.get("rows"), list):
        fail(f"{path} has no list \"rows\"")
    return device_name(document), [timed(entry, f"{path}, row {index}") for index, entry in enumerate(document["rows"])]


def device_name(document: dict[str, Any]) -> str:
    """Torchlight may name its GPU by an object with more in it, or call it adapter."""
    device = document.get("device", document.get("adapter"))
    if isinstance(device, dict):
        device = device.get("name")
    return str(device or "unnamed GPU")


def timed(entry: dict[str, Any], where: str) -> Timed:
    try:
        who = entry["backend"] if "backend" in entry else f"{TORCHLIGHT} {entry['route']}"
        p50, p90 = float(entry["amortised_us_p50"]), float(entry["amortised_us_p90"])
        return Timed(who, shape_of(entry), p50, p90, entry.get("timing", "amortised"))
    except KeyError as error:
        fail(f"{where} lacks the field {error}")
    except (TypeError, ValueError) as error:
        fail(f"{where} is malformed: {error}")


def by_shape(rows: list[Timed]) -> dict[str, dict[Shape, list[Timed]]]:
    """Family, then shape, decode before prefill and short before long; in a shape the fastest first."""
    grouped: dict[str, dict[Shape, list[Timed]]] = {}
    for entry in sorted(rows, key=lambda row: (row.shape, row.p50)):
        grouped.setdefault(entry.shape.family, {}).setdefault(entry.shape, []).append(entry)
    return grouped


def print_family(family: str, shapes: dict[Shape, list[Timed]]) -> None:
    print(f"\n{family}")
    print(f"{'s':>6}{'context':>9}  {'who':<29}{'us p50':>12}{'us p90':>12}{'ratio':>10}")
    logarithms = []
    for shape, rows in shapes.items():
        fastest = min((row.p50 for row in rows if not row.ours), default=None)
        for index, row in enumerate(rows):
            head = f"{shape.new_tokens:>6}{shape.context_len:>9}" if index == 0 else " " * 15
            ratio = "no peer" if fastest is None else f"{row.p50 / fastest:.2f}"
            mark = " *" if row.how in ("events", "profile") else ""
            print(f"{head}  {row.who + mark:<29}{row.p50:>12.2f}{row.p90:>12.2f}{ratio:>10}")
        ours = [row.p50 for row in rows if row.ours]
        if ours and fastest:
            logarithms.append(math.log(min(ours) / fastest))
    if logarithms:
        mean = math.exp(sum(logarithms) / len(logarithms))
        print(f"{TORCHLIGHT}'s best route over the fastest peer: {mean:.2f} (geometric mean of {len(logarithms)})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE.json")
    args = parser.parse_args()
    rows: list[Timed] = []
    devices = []
    for path in args.files:
        device, found = read(path)
        devices.append(device)
        rows += found
        print(f"{path}: {len(found)} rows, {device}")
    if len(set(devices)) > 1:
        print("devices differ, at least in name: ratios hold only within one device")
    for family, shapes in by_shape(rows).items():
        print_family(family, shapes)
    if any(row.how in ("events", "profile") for row in rows):
        print("\n* with the cost of single launches or timestamps, unlike amortised times")


if __name__ == "__main__":
    main()
