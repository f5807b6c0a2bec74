"""The most memory that a piece of work held."""

import re
from pathlib import Path

import keras

_RESET, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


class Peak:
    """Measures a `with` block: `bytes` is the most memory during it, None where the system does not report it.

    On an accelerator it is the device's; what JAX reports there is the most since the process began. On a CPU under
    Linux it is the whole process's, the data included; the system's own count of that peak starts again with the block.

    >>> with Peak() as peak:
    ...     numbers = list(range(100_000))
    >>> peak.bytes is None or peak.bytes > 0
    True
    """

    bytes: int | None = None

    def __enter__(self):
        self._device = _device()
        if self._device == "torch":
            import torch

            torch.cuda.reset_peak_memory_stats()
        elif self._device is None and _RESET.exists():
            try:
                _RESET.write_text("5")  # the peak of resident memory is counted from now on
            except OSError:  # some containers keep it from their processes
                self._device = "unknown"
        return self

    def __exit__(self, *error):
        self.bytes = _READ[self._device]()


def _device() -> str | None:
    """Returns the backend whose accelerator is in use, or None on a CPU."""
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        return "jax" if jax.default_backend() != "cpu" else None
    if backend == "torch":
        import torch

        return "torch" if torch.cuda.is_available() else None
    import tensorflow

    return "unknown" if tensorflow.config.list_physical_devices("GPU") else None


def _jax() -> int | None:
    import jax

    return (jax.local_devices()[0].memory_stats() or {}).get("peak_bytes_in_use")


def _torch() -> int:
    import torch

    return torch.cuda.max_memory_allocated()


def _resident() -> int | None:
    if not _STATUS.exists():
        return None
    found = re.search(r"^VmHWM:\s+(\d+) kB$", _STATUS.read_text(), re.MULTILINE)
    return 1024 * int(found[1]) if found else None


_READ = {"jax": _jax, "torch": _torch, "unknown": lambda: None, None: _resident}
