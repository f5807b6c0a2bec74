"""YAML → tasks: errors that say what to type, grids in order, and runs that train as one program."""

import pytest
from singularbayes_experiments import config

GRID = [
    {"product": {"beta": [0.1, 0.3], "epochs": [5, 9]}},
    {"settings": {"epochs": 7}, "list": [{"beta": 1}, {"beta": 2, "epochs": 8}]},
]


def parse(**changes):
    method = {"grid": GRID, "choice": 4, **changes.pop("method", {})}
    preset = {"settings": {"warmup": 2}, "methods": {"low_rank": method}, **changes.pop("preset", {})}
    content = {"summary": "made up", "problem": "toy", "seeds": {"tuning": [0, 1], "result": [2]}}
    return config.parse("toy", {**content, "presets": {"protocol": preset}, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"presetz": {}}, "A key of toy.yaml must be one of .*got 'presetz'. Did you mean 'presets'?"),
        ({"method": {"choise": 1}}, "A key of protocol/low_rank in toy.yaml .*'choice'?"),
        ({"preset": {"methods": {"low_rnk": {}}}}, "A method must be one of .*got 'low_rnk'"),
    ],
)
def test_unknown_keys_of_a_file_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        parse(**changes)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"betta": 1}, r"A setting of ToySettings \(toy.yaml\) .*got 'betta'. Did you mean 'beta'?"),
        ({"beta": "much"}, r"beta \(toy.yaml\) must be .*float.*got 'much'"),
        ({"prior": "wide"}, r"prior .*scale_mixture.*got 'wide'"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        parse(preset={"settings": settings}).grid("protocol", "low_rank")


def test_a_grid_is_its_parts_in_order_with_the_last_name_fastest():
    grid = parse().grid("protocol", "low_rank")
    assert [(one.beta, one.epochs) for one in grid] == [(0.1, 5), (0.1, 9), (0.3, 5), (0.3, 9), (1.0, 7), (2.0, 8)]
    assert {one.warmup for one in grid} == {2}
    assert parse().chosen("protocol", "low_rank") == (4, grid[4])


def test_runs_that_differ_in_rates_and_kl_weights_alone_are_one_task():
    tasks = parse().runs_of("protocol", config.TUNING)
    assert [(task.configurations, task.seeds) for task in tasks] == [
        ((0, 0, 2, 2), (0, 1, 0, 1)),  # 5 epochs
        ((1, 1, 3, 3), (0, 1, 0, 1)),
        ((4, 4), (0, 1)),
        ((5, 5), (0, 1)),
    ]
    assert [settings.beta for settings in tasks[0].settings] == [0.1, 0.1, 0.3, 0.3]
    by_step = parse(settings={"cosine": "step"}, method={"grid": [{"product": {"learning_rate": [0.1, 0.2]}}]})
    assert len(by_step.runs_of("protocol", config.TUNING)) == 2  # a schedule by steps is part of the program


def test_what_a_preset_does_not_have_is_an_error():
    with pytest.raises(ValueError, match=r"A preset of toy .*got 'papper'"):
        parse().runs_of("papper")
    with pytest.raises(ValueError, match=r"A method of toy protocol .*got 'swag'"):
        parse().runs_of("protocol", methods=["swag"])
    with pytest.raises(ValueError, match=r"must have the choice of low_rank .*run its tuning first"):
        parse(method={"choice": None}).runs_of("protocol")
    with pytest.raises(ValueError, match="must have seeds for result or protocol"):
        parse(seeds={"tuning": [0]}).runs_of("protocol")


@pytest.mark.parametrize("name", config.names())
def test_every_configuration_of_every_file_is_a_setting_of_its_problem(name):
    experiment = config.read(name)
    for preset in experiment.presets:
        tasks = experiment.runs_of(preset) + experiment.runs_of(preset, config.TUNING)
        assert {task.method for task in tasks} == set(experiment.methods(preset))
