"""Types of the native extension; the sources are in ``native/``. Addresses are those of contiguous memory."""

def version() -> str: ...
def isa() -> str: ...
def read_bandwidth(bytes: int, threads: int, seconds: float) -> float: ...
def peak_flops(kind: str, threads: int, seconds: float) -> float: ...
def supported_kinds() -> list[str]: ...

class Matrix:
    def __init__(self, format: str, data: int, n: int, k: int) -> None: ...
    @property
    def n(self) -> int: ...
    @property
    def k(self) -> int: ...
    @property
    def bytes(self) -> int: ...

class Context:
    def __init__(self, threads: int) -> None: ...
    @property
    def threads(self) -> int: ...

class AttentionArguments:
    def __init__(
        self,
        query_starts: int,
        context_lengths: int,
        page_tables: int,
        slots: int,
        sequences: int,
        table_width: int,
        tokens: int,
        masks: list[int],
    ) -> None: ...

def embedding(matrix: Matrix, tokens: int, count: int, out: int) -> None: ...
def linear(context: Context, x: int, rows: int, matrix: Matrix, out: int) -> None: ...
def rms_norm(context: Context, x: int, gain: int, epsilon: float, rows: int, size: int, out: int) -> None: ...
def rotary(
    context: Context, x: int, positions: int, frequencies: int, tokens: int, heads: int, size: int, out: int
) -> None: ...
def silu_mul(context: Context, gate: int, up: int, rows: int, size: int, out: int) -> None: ...
def attention(
    context: Context,
    arguments: AttentionArguments,
    queries: int,
    keys: int,
    values: int,
    heads: int,
    cache_keys: int,
    cache_values: int,
    cache_shape: list[int],
    out: int,
) -> None: ...

class Plan:
    def __init__(
        self,
        context: Context,
        embedding: Matrix,
        head: Matrix,
        final_norm: int,
        frequencies: int,
        heads: int,
        groups: int,
        size: int,
        epsilon: float,
    ) -> None: ...
    def add_layer(
        self,
        query: Matrix,
        key: Matrix,
        value: Matrix,
        output: Matrix,
        gate: Matrix,
        up: Matrix,
        down: Matrix,
        attention_norm: int,
        feed_forward_norm: int,
    ) -> None: ...
    def bind_cache(self, keys: list[int], values: list[int], pages: int, page_size: int) -> None: ...
    def step(
        self, arguments: AttentionArguments, tokens: int, positions: int, rows: int, count: int, out: int
    ) -> None: ...
