"""Size and time of the drawings of a page about 30 captured layers, by library.

    python benchmarks/inspect_drawings.py

Of each layer maps of 3 by 64 channels and of 48 by 48 weights, and two plots of three histograms;
over all layers eight maps of 30 by 9 heads. Needs matplotlib and plotly. The figures stand in
assay/captures/inspect/drawing.py.
"""

import io
import time
from collections.abc import Callable

import numpy as np

from assay.captures.inspect.drawing import HeatMap, HistogramPlot, heat_map, histogram_plot

LAYERS = 30
_draw = np.random.default_rng(0)
HEADS = [_draw.random((LAYERS, 9)) for _ in range(8)]
CHANNELS = [_draw.random((3, 64)) for _ in range(LAYERS)]
WEIGHTS = [np.tril(_draw.random((48, 48))) for _ in range(LAYERS)]
HISTOGRAMS = [_draw.random((3, 40)) for _ in range(2 * LAYERS)]
LEGEND = {"low_text": "0", "high_text": "1", "row_label": "layer", "column_label": "head"}


def own() -> int:
    """Bytes of the drawings as they are made here."""

    def drawn(cells: np.ndarray, **more: object) -> str:
        rows = tuple(map(tuple, cells.tolist()))
        return heat_map(HeatMap(cells=rows, low=0.0, high=1.0, **LEGEND, **more), label="map")

    hints = tuple(tuple(f"layer {i}, head {j}: 0.50 nats" for j in range(9)) for i in range(LAYERS))
    maps = [drawn(cells, hints=hints) for cells in HEADS]
    maps += [drawn(cells) for cells in CHANNELS] + [drawn(cells, square=True) for cells in WEIGHTS]
    ticks = tuple((float(t), str(t)) for t in range(-10, 11, 2))
    plots = [
        HistogramPlot(
            low=-10.0, width=0.5, shares=dict(zip("qkv", shares.tolist(), strict=True)),
            ticks=ticks, x_label="size",
        )
        for shares in HISTOGRAMS
    ]  # fmt: skip
    return sum(map(len, maps)) + sum(len(histogram_plot(plot, label="plot")) for plot in plots)


def with_matplotlib(method: str) -> int:
    """Bytes of SVG; heat maps are drawn by `method` of the axes."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams["svg.fonttype"] = "none"
    total = 0
    for content in (*HEADS, *CHANNELS, *WEIGHTS, *HISTOGRAMS):
        figure = Figure(figsize=(5.2, 3.0))
        axes = figure.add_subplot()
        if any(content is shares for shares in HISTOGRAMS):
            for shares in content:
                axes.stairs(shares, np.linspace(-10, 10, 41))
        else:
            figure.colorbar(getattr(axes, method)(content, cmap="Blues"))
        svg = io.StringIO()
        figure.savefig(svg, format="svg")
        total += len(svg.getvalue())
    return total


def with_plotly() -> int:
    """Bytes of plotly's script and of the figures as JSON."""
    import plotly.graph_objects as go
    from plotly.offline import get_plotlyjs

    maps = [go.Figure(go.Heatmap(z=m.astype("f4"))) for m in (*HEADS, *CHANNELS, *WEIGHTS)]
    plots = [
        go.Figure([go.Scatter(y=s, line_shape="hv") for s in h.astype("f4")]) for h in HISTOGRAMS
    ]
    return len(get_plotlyjs()) + sum(len(figure.to_json()) for figure in (*maps, *plots))


def main() -> None:
    ways: dict[str, Callable[[], int]] = {
        "own": own,
        "matplotlib pcolormesh": lambda: with_matplotlib("pcolormesh"),
        "matplotlib imshow": lambda: with_matplotlib("imshow"),
        "plotly": with_plotly,
    }
    for name, way in ways.items():
        start = time.process_time()
        size = way()
        print(f"{name:<22} {size / 1e6:6.2f} MB {time.process_time() - start:6.1f} s of CPU time")


if __name__ == "__main__":
    main()
