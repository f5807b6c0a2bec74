"""Packages of the library, experiments, benchmarks and scripts import a package of the library by its `__init__`."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIBRARY = ROOT / "src" / "singularbayes"
PACKAGES = sorted(path.parent.name for path in LIBRARY.glob("*/__init__.py"))


def exports(package: str) -> set[str]:
    """Returns the names in `__all__`."""
    for node in ast.parse((LIBRARY / package / "__init__.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def deep_imports(source: str, package: str | None, exported: dict[str, set[str]]) -> list[str]:
    """Returns the imports from another package's files, or of names that its `__init__` does not export."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [
                name.name for name in node.names if name.name.startswith("singularbayes.") and "." in name.name[14:]
            ]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("singularbayes."):
            other, *inner = node.module.split(".")[1:]
            if other not in exported or other == package:
                continue
            found += [f"{node.module}.{name.name}" for name in node.names if inner or name.name not in exported[other]]
    return found


def test_packages_are_imported_by_their_init():
    exported = {package: exports(package) for package in PACKAGES}
    found = []
    for folder in (LIBRARY, ROOT / "experiments" / "src", ROOT / "benchmarks", ROOT / "docs" / "scripts"):
        for path in sorted(folder.rglob("*.py")):
            package = path.relative_to(folder).parts[0] if folder == LIBRARY else None
            found += [f"{path.relative_to(ROOT)}: {name}" for name in deep_imports(path.read_text(), package, exported)]
    assert not found, "\n".join(found)


def test_a_deep_import_is_found():
    exported = {"metrics": {"accuracy"}, "plots": {"pareto"}}
    assert deep_imports("from singularbayes.metrics.scoring import accuracy", "plots", exported)
    assert deep_imports("from singularbayes.metrics import scoring", "plots", exported)
    assert deep_imports("import singularbayes.metrics.scoring", "plots", exported)
    assert not deep_imports("from singularbayes.metrics import accuracy", "plots", exported)
    assert not deep_imports("from singularbayes.metrics.scoring import accuracy", "metrics", exported)
