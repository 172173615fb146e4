"""Commands that show what there is, and what was learnt."""

import argparse
import json
from pathlib import Path

from everlearn._kit.catalogue import FIGURES
from everlearn.cli.options import Commands, say, tell
from everlearn.errors import ConfigError, sentence

LISTS = ("strategies", "benchmarks", "models", "figures", "experiments")


def add(commands: Commands) -> None:
    """These commands and their options."""
    listing = commands.add_parser("list", help=f"list {', '.join(LISTS[:-1])} or {LISTS[-1]}")
    listing.add_argument("what", nargs="?", choices=LISTS, help="default: all of them")
    listing.add_argument("--json", action="store_true", help="print JSON")
    listing.set_defaults(do=command_list)

    report = commands.add_parser("report", help="write the page of all runs below a folder")
    report.add_argument("folder", type=Path)
    report.add_argument("--out", type=Path, metavar="FILE", help="default: report.html in the folder")
    report.add_argument("--json", action="store_true", help="print the table as JSON")
    report.set_defaults(do=command_report)

    figures = commands.add_parser("figures", help="draw all runs below a folder, as PNG and SVG")
    figures.add_argument("folder", type=Path, metavar="RUNS")
    figures.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the figures")
    figures.add_argument("--only", nargs="+", metavar="NAME", help=f"some of: {', '.join(FIGURES)}")
    figures.add_argument(
        "--by", choices=["strategy", "folder"], default="strategy", help="folder: each folder in RUNS is a variant"
    )
    figures.set_defaults(do=command_figures)

    dashboard = commands.add_parser("dashboard", help="serve a page that follows all runs below a folder as they learn")
    dashboard.add_argument("folder", type=Path, metavar="RUNS")
    dashboard.add_argument("--host", default="127.0.0.1", help="default: 127.0.0.1; any other address demands a token")
    dashboard.add_argument("--port", type=int, default=8765, help="default: 8765; 0 for any that is free")
    dashboard.add_argument("--token", help="default: $EVERLEARN_DASHBOARD_TOKEN, or a new one where one is needed")
    dashboard.set_defaults(do=command_dashboard)


def command_list(arguments: argparse.Namespace) -> None:
    """Print names with a sentence each."""
    tables = {what: _table(what, names=arguments.json) for what in LISTS if arguments.what in (None, what)}
    if arguments.json:
        say(json.dumps(tables[arguments.what] if arguments.what else tables, ensure_ascii=False, indent=1))
        return
    for k, what in enumerate(tables):
        if not arguments.what:
            say(f"{chr(10) if k else ''}{what}:")
        width = max(map(len, tables[what]))
        for name, about in tables[what].items():
            say(f"{name:<{width}}  {about}")


def _table(what: str, *, names: bool) -> dict[str, str]:
    """Names with a sentence each. names: for scripts, with nothing that cannot be used as it stands."""
    from everlearn._kit.catalogue import BENCHMARKS, EXPERIMENTS, MODELS, OWN
    from everlearn._kit.plugins import NETWORKS, SOURCES

    if what == "strategies":
        from everlearn.recipes.registry import recipes, unusable

        return {name: recipe.words for name, recipe in recipes().items()} | ({} if names else unusable())
    if what == "benchmarks":
        sources = {f"split-N:{name}": about for name, about in SOURCES.abouts().items()}
        return BENCHMARKS if names else {**BENCHMARKS, **OWN, **sources}
    if what == "models":
        brought = {name: about for name, about in NETWORKS.abouts().items() if name not in MODELS}
        return MODELS | {name: about for name, about in brought.items() if not names or name not in NETWORKS.broken}
    return FIGURES if what == "figures" else EXPERIMENTS


def command_report(arguments: argparse.Namespace) -> None:
    """Write the page."""
    from everlearn import figures, report

    page = report.write(arguments.folder, arguments.out, figures.pictures)
    say(json.dumps(report.summary(arguments.folder)) if arguments.json else report.table(arguments.folder))
    tell(f"The page: {page}")


def command_figures(arguments: argparse.Namespace) -> None:
    """Draw the figures."""
    from everlearn import figures

    album = figures.draw(arguments.folder, arguments.out, arguments.only, arguments.by)
    for name, why in album.left_out.items():
        tell(f"Left out: {name}. {why}")
    for path in album.paths:
        say(str(path))


def command_dashboard(arguments: argparse.Namespace) -> None:
    """Serve the live page until interrupted."""
    try:
        from everlearn.dashboard.server import serve, token_from
    except ModuleNotFoundError as error:
        if error.name not in {"starlette", "uvicorn"}:
            raise
        raise ConfigError(
            sentence(
                "The live page needs a server",
                expected="the extra `dashboard`",
                got=f"no {error.name}",
                do="Install it with: pip install 'everlearn[dashboard]'.",
            )
        ) from error

    def ready(url: str) -> None:
        say(url)
        tell("Open this address; Ctrl-C ends the page. Runs go on without it.")

    serve(arguments.folder, arguments.host, arguments.port, token_from(arguments.token), ready=ready)
