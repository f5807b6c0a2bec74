"""Records in, pages out."""


def require_extra() -> None:
    """Raises, with what to type, unless the packages that pages need are installed."""
    try:
        import jinja2  # noqa: F401
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"The report needs matplotlib and jinja2; got no {error.name}. Type: pip install 'singularbayes[report]'"
        ) from error
