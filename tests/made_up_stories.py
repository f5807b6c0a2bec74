"""Stories with made-up numbers, so that the page and the command are tested without training."""

import numpy as np

from singularbayes import compare
from singularbayes.demo import figures
from singularbayes.demo.page import Story
from singularbayes.evaluation import Evaluation


def made_up_story(name="regression", settings=None):
    grid = np.linspace(-0.5, 1.5, 21)
    bands = dict.fromkeys(("deterministic", "mixture"), (grid, grid - 0.1, grid + 0.1))
    drawn = figures.Bands(grid[5:9], grid[5:9], grid, grid, bands)
    runs = [
        Evaluation(method, "regression", 0, {"rmse": rmse}, num_stored=size)
        for method, rmse, size in (("mixture", 0.1, 7202), ("deterministic", 0.2, 802))
    ]
    return Story(
        name=name,
        title=f"About {name}",
        sentence=f"What {name} shows.",
        code='Dense(64, "relu", posterior="mixture")',
        ours="mixture",
        figures=(figures.bands(drawn, wide=True), figures.bands(drawn, wide=False)),
        alt="Two bands around a line that rises.",
        details=("Points & a network.", "All settings are defaults."),
        table=compare(runs, ["num_stored", "rmse"]),
        note="RMSE is on new points.",
        settings=settings or {"epochs": 800},
    )
