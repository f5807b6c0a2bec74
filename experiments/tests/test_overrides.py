"""Settings by text have the type of the setting, or are refused in words."""

from dataclasses import dataclass
from typing import Literal

import pytest
from singularbayes_experiments.methods.overrides import overridden


@dataclass(frozen=True)
class Settings:
    beta: float = 0.1
    epochs: int = 3
    cosine: bool = False
    name: str = "x"
    between: tuple[float, float] = (0.0, 1.0)
    ranks: tuple[int, ...] = (1, 2)
    limit: int | None = None
    kind: Literal["svd", "random"] = "svd"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("beta=3", 3.0),
        ("beta=1e-4", 1e-4),
        ("epochs=1_000", 1000),
        ("cosine=Yes", True),
        ("cosine=false", False),
        ("name=a=b", "a=b"),
        ("between=-1, 0.5", (-1.0, 0.5)),
        ("ranks=25,25,10", (25, 25, 10)),
        ("ranks=", ()),
        ("limit=none", None),
        ("limit=7", 7),
        ("kind=random", "random"),
    ],
)
def test_a_setting_is_changed_to_its_own_type(text, value):
    name = text.split("=")[0]
    found = getattr(overridden(Settings(), [text]), name)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("beta", r"--set needs name=value, such as beta=0\.3; got 'beta'"),
        ("bta=1", r"one of \['beta', .*\]; got 'bta'\. Did you mean 'beta'\?"),
        ("zzz=1", r"got 'zzz'\.$"),
        ("beta=much", r"--set beta needs a number; got 'much'"),
        ("epochs=2.5", r"--set epochs needs an integer; got '2\.5'"),
        ("cosine=1", r"--set cosine needs true or false; got '1'"),
        ("between=1", r"--set between needs 2 of numbers with commas between, such as 1,2; got '1'"),
        ("ranks=1,x", r"--set ranks needs any number of integers"),
        ("limit=x", r"--set limit needs an integer or none; got 'x'"),
        ("kind=other", r"--set kind needs one of svd, random; got 'other'"),
    ],
)
def test_what_is_no_setting_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        overridden(Settings(), [text])


def test_the_rest_stays():
    assert overridden(Settings(), []) == Settings()
    assert overridden(Settings(), ["epochs=5", "epochs=6"]) == Settings(epochs=6)
