"""Argument checks: what passes, and that an error names the function, the need and what was given."""

import numpy as np
import pytest

from singularbayes import checks


def test_what_is_right_passes():
    checks.require_integer("f", a=1, b=np.int64(7))
    checks.require_integer("f", 0, a=0)
    checks.require_share("f", delta=0.05)
    checks.require_unit("f", q=np.array([0.0, 1.0]))
    checks.require_at_least("f", 0, kl=np.inf)
    checks.require_positive("f", scale=np.ones(3), rate=np.float32(0.1))
    checks.require_choice("f", ("a", "b"), form="b")
    checks.require_finite("f", x=np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: checks.require_integer("f", draws=0), "f needs draws to be an integer >= 1; got draws=0"),
        (lambda: checks.require_integer("f", draws=2.0), "got draws=2.0"),
        (lambda: checks.require_integer("f", draws=True), "got draws=True"),
        (lambda: checks.require_integer("f", 2, rank=1), "f needs rank to be an integer >= 2; got rank=1"),
        (lambda: checks.require_share("f", delta=1), "f needs 0 < delta < 1; got delta=1"),
        (lambda: checks.require_share("f", level=95), r"needs 0 < level < 1; got level=95\. For 95 % write 0\.95\."),
        (lambda: checks.require_unit("f", q=1.5), r"f needs q in \[0, 1\]; got 1.5"),
        (lambda: checks.require_at_least("f", 0, kl=np.nan), "f needs kl >= 0; got kl=nan"),
        (lambda: checks.require_positive("f", scale=0.0), "f needs scale > 0 and finite; got scale=0.0"),
        (
            lambda: checks.require_positive("f", scale=np.array([1.0, -1.0])),
            r"of shape \(2,\) from -1.0 to 1.0",
        ),
        (lambda: checks.require_choice("f", ("a", "b"), form="c"), r"form to be one of \('a', 'b'\); got form='c'"),
        (lambda: checks.require_finite("f", x=[[0.0, np.nan]]), r"got nan in x at \[0, 1\], and 1 of 2 not finite"),
        (lambda: checks.require_finite("f", x=[]), "f needs finite numbers as x"),
    ],
)
def test_what_is_wrong_is_named(check, message):
    with pytest.raises(ValueError, match=message):
        check()
