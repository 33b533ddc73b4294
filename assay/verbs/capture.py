"""Take attention inputs out of a running model, and exchange them as files."""

import typer

from assay.verbs import _capturing, _exchanging


def command() -> typer.Typer:
    app = typer.Typer(
        no_args_is_help=True, add_completion=False, help=f"{__doc__} {_capturing.EXAMPLE}"
    )
    app.command(help=f"{_capturing.run.__doc__} {_capturing.EXAMPLE}")(_capturing.run)
    app.command(help=f"{_exchanging.export.__doc__} {_exchanging.EXPORT}")(_exchanging.export)
    app.command("import", help=f"{_exchanging.import_.__doc__} {_exchanging.IMPORT}")(
        _exchanging.import_
    )
    return app
