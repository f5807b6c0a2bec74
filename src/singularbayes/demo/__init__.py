"""The demo: three stories, each trained in seconds, on one page.

A story is a module with `PROGRAMS`, how many trainings it has, `Settings`, `QUICK` and `run(trainer, settings) ->
Story`. To add one, add it to `STORIES`.
"""

from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from singularbayes.demo import conversion, digits, figures, noisy_digits, page, regression
from singularbayes.demo.page import Story
from singularbayes.demo.training import Trainer

__all__ = ["Story", "Trainer", "digits", "figures", "noisy_digits", "regression", "run"]

STORIES = (regression, digits, conversion)
SEEDS = 3


def run(out: Path, seed: int, quick: bool, command: str, console: Console) -> Path:
    """Trains the networks of all stories, writes the page into the folder `out`, and returns its path.

    Args:
        seed: the first of the three seeds that numbers are means over.
        quick: train for fewer epochs.
        command: what a reader types to make the page again.
        console: where one line for each training and the tables are printed.
    """
    seeds = tuple(range(seed, seed + SEEDS))
    trainer = Trainer(console, seeds, total=sum(story.PROGRAMS for story in STORIES))
    stories = [story.run(trainer, story.QUICK if quick else story.Settings()) for story in STORIES]
    path = page.write(stories, out, command, quick)
    for story in stories:
        console.print(f"\n[bold]{story.title}[/bold]")
        console.print(story.sentence, story.losses, highlight=False)
        console.print(_table(story))
    return path


def _table(story: Story) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("method", vertical="bottom")
    for head in story.heads:
        table.add_column(Text(head.replace(" ", "\n")), justify="right", vertical="bottom")  # 80 columns are enough
    for name, cells in story.rows:
        table.add_row(name, *(Text(text, style="bold" if best else "") for text, best in cells))
    return table
