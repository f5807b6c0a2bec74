"""The picture of the imports on the design page."""

import import_graph
import pytest


def test_levels_are_above_what_is_imported_and_implied_imports_are_left_out():
    imports = {"a": {"b", "c"}, "b": {"c"}, "c": set()}
    assert import_graph.levels(imports) == {"c": 0, "b": 1, "a": 2}
    assert import_graph.needed(imports) == {"a": {"b"}, "b": {"c"}, "c": set()}
    assert import_graph.chains({"a": {"c"}, "b": {"c"}, "c": set()}) == [["a", "c"], ["b", "c"]]


def test_a_circle_is_an_error():
    with pytest.raises(ValueError, match="must not import each other in a circle; got one among"):
        import_graph.levels({"a": {"b"}, "b": {"a"}})


def test_the_design_page_describes_every_package_that_the_code_has():
    packages = import_graph.package_imports().keys()
    page = (import_graph.ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    assert {"posteriors", "layers", "likelihoods", "experiments"} <= packages
    assert [name for name in packages if f"{name}/" not in page] == []


def test_the_picture_is_that_of_the_code():
    assert import_graph.in_words(import_graph.package_imports()) in import_graph.PICTURE.read_text(encoding="utf-8")
