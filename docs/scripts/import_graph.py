"""The picture of docs/design.md: which package of the library imports which, from the code as it is.

python docs/scripts/import_graph.py
"""

from itertools import pairwise
from pathlib import Path

import grimp
from matplotlib import figure, patches, rc_context

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "import_graph.svg"
WIDTH, HEIGHT, GAP = 1.5, 0.46, 0.3  # of a box, and between two


def package_imports() -> dict[str, set[str]]:
    """Returns the packages that each package imports; the experiments count as one, single files are left out."""
    graph = grimp.build_graph(
        "singularbayes", "singularbayes_experiments", exclude_type_checking_imports=True, cache_dir=None
    )
    packages = {
        name: name.rpartition(".")[2] for name in graph.find_children("singularbayes") if graph.find_children(name)
    }
    packages["singularbayes_experiments"] = "experiments"
    for name in packages:
        graph.squash_module(name)
    return {
        short: {packages[other] for other in graph.find_modules_directly_imported_by(name) if other in packages}
        - {short}
        for name, short in sorted(packages.items())
    }


def levels(imports: dict[str, set[str]]) -> dict[str, int]:
    """Returns the height of each package: one above the highest that it imports."""
    found: dict[str, int] = {}
    while len(found) < len(imports):
        ready = {name for name, others in imports.items() if name not in found and others <= found.keys()}
        if not ready:
            raise ValueError(
                f"Packages must not import each other in a circle; got one among {imports.keys() - found}."
            )
        found |= {name: 1 + max((found[other] for other in imports[name]), default=-1) for name in ready}
    return found


def needed(imports: dict[str, set[str]]) -> dict[str, set[str]]:
    """Returns the imports that no chain of other imports implies."""

    def below(name: str) -> set[str]:
        return imports[name].union(*(below(other) for other in imports[name]))

    return {name: others - {far for near in others for far in below(near)} for name, others in imports.items()}


def chains(imports: dict[str, set[str]]) -> list[list]:
    """Returns each import as a chain of points, one per level; the points between two packages are tuples."""
    height = levels(imports)
    return [
        [name, *((name, other, level) for level in range(height[name] - 1, height[other], -1)), other]
        for name, others in needed(imports).items()
        for other in sorted(others)
    ]


def places(imports: dict[str, set[str]]) -> dict:
    """Returns (x, y) of every point: near the mean of its neighbours, so that few lines cross and most are straight."""
    height, links = levels(imports), [pair for chain in chains(imports) for pair in pairwise(chain)]
    rows: list[list] = [[] for _ in range(max(height.values()) + 1)]
    for point in dict.fromkeys([*imports, *(point for link in links for point in link)]):
        rows[height[point] if isinstance(point, str) else point[2]].append(point)
    place: dict = {}
    for sweep in range(40):
        for row in rows if sweep % 2 else rows[::-1]:
            wish = {p: 0.8 * _mean([place[q] for link in links if p in link for q in link if q in place]) for p in row}
            row.sort(key=wish.__getitem__)
            put: list[float] = []
            for k, point in enumerate(row):
                apart = sum(WIDTH / 2 if isinstance(p, str) else 0 for p in row[max(k - 1, 0) : k + 1]) + GAP
                put.append(max(wish[point], put[-1] + apart) if put else wish[point])
            shift = _mean(list(wish.values())) - _mean(put)
            place |= {point: x + shift for point, x in zip(row, put, strict=True)}
    return {point: (place[point], 0.9 * level) for level, row in enumerate(rows) for point in row}


def _mean(values: list[float]) -> float:
    return sum(values) / max(len(values), 1)


def draw(imports: dict[str, set[str]]) -> figure.Figure:
    """Returns the picture: a package stands above those that it imports; implied imports are left out."""
    place = places(imports)
    width, height = (max(sides) - min(sides) for sides in zip(*place.values(), strict=True))
    drawn = figure.Figure(figsize=(0.72 * (width + WIDTH), 0.72 * (height + 1)), layout="constrained")
    axes = drawn.add_subplot()
    axes.set_axis_off()
    for chain in chains(imports):
        for start, end in pairwise(chain):
            (x, y), (to_x, to_y) = place[start], place[end]
            arrow = {"arrowstyle": "-|>", "mutation_scale": 8} if end == chain[-1] else {"arrowstyle": "-"}
            foot = y - HEIGHT / 2 if start == chain[0] else y
            head = to_y + HEIGHT / 2 if end == chain[-1] else to_y
            line = patches.FancyArrowPatch((x, foot), (to_x, head), shrinkA=0, shrinkB=0, color="#1f4e79", **arrow)
            axes.add_patch(line)
    for name in imports:
        x, y = place[name]
        corner, style = (x - WIDTH / 2, y - HEIGHT / 2), "round,pad=0,rounding_size=0.08"
        axes.add_patch(patches.FancyBboxPatch(corner, WIDTH, HEIGHT, style, facecolor="white", edgecolor="#555555"))
        axes.text(x, y, name, ha="center", va="center", fontsize=9)
    axes.autoscale_view()
    return drawn


def in_words(imports: dict[str, set[str]]) -> str:
    """Returns the arrows of the picture as text, which the file holds too: so a test sees whether it is up to date."""
    return "; ".join(f"{name}: {', '.join(sorted(others))}" for name, others in sorted(needed(imports).items()))


if __name__ == "__main__":
    found = package_imports()
    with rc_context({"svg.hashsalt": "import_graph"}):  # the same file from the same code
        draw(found).savefig(PICTURE, metadata={"Date": None, "Description": in_words(found)})
