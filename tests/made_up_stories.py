"""Stories with made-up numbers, so that the page and the command are tested without training."""

import numpy as np

from singularbayes import compare, plots
from singularbayes.demo.page import Story
from singularbayes.evaluation import Evaluation


def made_up_story(name="regression", settings=None):
    grid = np.linspace(-0.5, 1.5, 21)
    draws = grid + np.linspace(-0.1, 0.1, 8)[:, None]
    bands = {method: plots.quartile_bands(grid, draws, 0.02) for method in ("low-rank", "full-rank")}
    runs = [
        Evaluation(method, "regression", 0, {"rmse": rmse}, num_stored=size)
        for method, rmse, size in (("low-rank", 0.1, 7202), ("full-rank", 0.2, 20802))
    ]
    return Story(
        name=name,
        title=f"About {name}",
        setup="Points & a network.",
        sentence=f"What {name} shows.",
        figure=plots.function_bands(bands, grid[5:9], grid[5:9]),
        alt="Two bands around a line that rises.",
        table=compare(runs, ["num_stored", "rmse"]),
        note="RMSE is on new points.",
        settings=settings or {"epochs": 800},
    )
