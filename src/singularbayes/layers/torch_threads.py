"""One thread for PyTorch's operations, where several threads would wait longer for each other than they compute."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_LOCK = threading.Lock()
_inside = 0  # how many blocks are open, in all threads of this process
_before = 1  # torch's number of threads before the first of them


@contextmanager
def one_thread() -> Iterator[None]:
    """Keeps torch to one thread; the number before comes back when the last of the blocks that are open ends.

    The number is one for the whole process, and requests of a service may open such blocks at the same time.
    """
    import torch

    global _inside, _before
    with _LOCK:
        if _inside == 0:
            _before = torch.get_num_threads()
            torch.set_num_threads(1)
        _inside += 1
    try:
        yield
    finally:
        with _LOCK:
            _inside -= 1
            if _inside == 0:
                torch.set_num_threads(_before)
