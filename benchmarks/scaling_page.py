"""Fills the tables of docs/scaling.md: python benchmarks/scaling_page.py. A test holds page and numbers equal."""

import json
from pathlib import Path
from typing import Any

from footprint import Footprint, decoder, footprint
from performance_page import RECORDS, source, table

from singularbayes import Deterministic, FullRank, LowRank

PAGE = Path(__file__).parent.parent / "docs" / "scaling.md"
DEVICES = 8
WIDTH, CONTEXT = 1600, 1024
XL = decoder(blocks=48, width=WIDTH, vocabulary=50257, context=CONTEXT)  # the sizes of GPT-2 XL


def cost() -> str:
    """Returns what a network of GPT-2 XL's sizes costs with every kind of posterior."""
    kinds = {"deterministic": Deterministic(), "full-rank": FullRank()}
    kinds |= {f"low-rank, rank {rank}": LowRank(rank) for rank in (16, 32, 64)}
    plain = footprint(XL, Deterministic())
    header = ["weights", "parameters", "memory to train", f"on each of {DEVICES} devices", "file", "work per token"]
    return table(header, [[name, *_cells(footprint(XL, kind), plain)] for name, kind in kinds.items()])


def _cells(found: Footprint, plain: Footprint) -> list[str]:
    everywhere = Footprint(XL.plain - CONTEXT * WIDTH, 0, 0).training_bytes  # biases and norms; positions are split
    split = everywhere + (found.training_bytes - everywhere) / DEVICES
    gigabytes = [found.training_bytes, split, found.stored_bytes]
    work = f"{found.multiply_adds / 1e6:,.0f} M ({found.multiply_adds / plain.multiply_adds:.3f})"
    return [f"{found.trained / 1e6:,.0f} M", *(f"{size / 1e9:.2f} GB" for size in gigabytes), work]


def measured() -> str:
    """Returns the section from the record of bench_scaling.py."""
    path = RECORDS / "scaling.json"
    if not path.exists():
        return "Not measured yet."
    kept = json.loads(path.read_text())
    made = [_measured(what, row) for what, row in kept["results"].items()]
    cores = (
        f"The machine has {kept['machine']['cores']} cores, so {kept['machine']['cores']} × is the most there can be. "
        f"Its load by others was {kept['machine']['load']} when this began."
    )
    return "\n\n".join([*made, cores, source("scaling")])


def _measured(what: str, rows: dict[str, dict[str, Any]]) -> str:
    lines = [
        [count, f"{row['median_ms'] / 1e3:.3g} s", f"{row['speed']:.2f} ×", f"{row['efficiency']:.2f}"]
        for count, row in rows.items()
    ]
    return f"**{what}**\n\n" + table(["how many", "time", "speed", "efficiency"], lines)


def render() -> str:
    """Returns the page with its tables made anew."""
    text = PAGE.read_text()
    for name, made in {"cost": cost(), "measured": measured()}.items():
        before, rest = text.split(f"<!-- {name} -->\n")
        _, after = rest.split("\n<!-- end -->", 1)
        text = f"{before}<!-- {name} -->\n{made}\n<!-- end -->{after}"
    return text


if __name__ == "__main__":
    PAGE.write_text(render())
