"""The page: one file that opens anywhere, asks for nothing, and runs nothing but its own script."""

import base64
import hashlib
from importlib.resources import files
from pathlib import Path
from typing import Literal

from everlearn._kit.files import write_atomically
from everlearn.errors import EverlearnError, sentence
from everlearn.recipes.known import BASELINE
from everlearn.records import Run, read
from everlearn.records.groups import Comparison, Group, benchmarks
from everlearn.report import alarms, curves, matrices, sections
from everlearn.report.joined import together
from everlearn.report.labels import by_folder
from everlearn.report.markup import Html, join, tag
from everlearn.report.pictures import FINAL, Pictures, no_pictures, shown
from everlearn.report.pictures import sections as drawn_sections
from everlearn.report.tables import DEVIATION, PERCENT, written


def write(
    folder: Path,
    out: Path | None = None,
    pictures: Pictures = no_pictures,
    *,
    by: Literal["strategy", "folder"] = "strategy",
) -> Path:
    """Write the report on all runs in a folder and below it.

    Args:
        folder: a run's folder, or one with runs below it.
        out: the file to write; by default report.html in the folder.
        pictures: `everlearn.figures.pictures`, to have those that matplotlib draws too.
        by: "folder" for variants: then the folders on the way to a run are its label.

    Returns:
        Where the report is.
    """
    out = Path(folder) / "report.html" if out is None else Path(out)
    runs = read(folder)
    found = together(benchmarks(runs) if by == "strategy" else by_folder(runs))
    page = document(found, pictures).encode()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out, page)
    except OSError as error:
        raise EverlearnError(
            sentence(
                "The report cannot be written", expected="a file that can be written", got=error, do="Give another out."
            )
        ) from error
    return out


def document(found: list[Comparison], pictures: Pictures = no_pictures) -> str:
    """The whole page."""
    style, script = _asset("style.css") + _switches(max(len(bench.groups) for bench in found)), _asset("script.js")
    only = f"img-src data:; style-src {_hash(style)}; script-src {_hash(script)}"
    policy = f"default-src 'none'; {only}; base-uri 'none'; form-action 'none'"
    title = "Everlearn report: " + ", ".join(bench.title for bench in found)
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Html(style)),
    )
    main = tag("main", *(_benchmark(bench, k, pictures) for k, bench in enumerate(found, start=1)))
    body = tag("body", _header(found), main, tag("script", Html(script)))
    return f"<!doctype html>\n{tag('html', head, body, lang='en-GB')}\n"


def _asset(name: str) -> str:
    return (files("everlearn.report") / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _switches(groups: int) -> str:
    """What a legend's boxes do, without a script."""
    return "".join(
        f".curves:has(.legend .k{k} input:not(:checked)) .chart .k{k}{{display:none}}\n" for k in range(groups)
    )


def _header(found: list[Comparison]) -> Html:
    links = [tag("a", bench.title, href=f"#b{k}") for k, bench in enumerate(found, start=1)]
    runs = sum(len(bench.runs) for bench in found)
    strategies = len({group.strategy for bench in found for group in bench.groups})
    what = f"{_many(runs, 'run')} of {_many(strategies, 'strategy', 'strategies')} on {_many(len(found), 'benchmark')}"
    return tag(
        "header",
        tag("h1", "Everlearn report"),
        tag("p", f"{what}. What was learnt batch by batch, and what was kept of it.", class_="lead-in"),
        tag("nav", *links, aria_label="Benchmarks") if len(links) > 1 else "",
    )


def _many(n: int, one: str, more: str | None = None) -> str:
    return f"{n} {one if n == 1 else more or one + 's'}"


def _benchmark(bench: Comparison, k: int, pictures: Pictures) -> Html:
    where = f"b{k}"
    accuracy = f"Accuracy by batch on {bench.title}: mean over the finished runs, with a band of one {DEVIATION}."
    spent = (
        f"Seconds on {bench.title}: mean and deviation over the finished runs. The two panels have scales of their own."
    )
    drawn = pictures(bench, where)
    badge = tag("span", "synthetic", class_="badge") if bench.synthetic else ""
    parts: list[tuple[str, str, list[Html]]] = [
        ("curve", "Accuracy by batch", [curves.figure(bench, curves.ACCURACY, where, shared=True, caption=accuracy)]),
        (
            "final",
            "Final accuracy",
            [sections.final(bench), *shown(drawn, FINAL, "Final accuracy"), sections.kept(bench)],
        ),
        ("look", "What to look at", [alarms.section(bench)]),
        ("cm", "Confusion matrices", [matrices.figure(bench, where)]),
        *drawn_sections(drawn),
        ("storage", "Storage", [sections.storage(bench)]),
        (
            "time",
            "Time",
            [curves.figure(bench, curves.SECONDS, where, shared=False, caption=spent), sections.seconds(bench)],
        ),
        ("made", "How it was made", [sections.made(bench)]),
    ]
    body = [tag("section", tag("h3", title, id=f"{where}-{key}"), *inner) for key, title, inner in parts]
    return tag(
        "article",
        tag("h2", tag("span", bench.name), " ", badge, id=where),
        tag("p", _sentence(bench), class_="what"),
        tag("p", _headline(bench), class_="headline"),
        _notes(bench),
        *body,
        aria_labelledby=where,
    )


def _sentence(bench: Comparison) -> str:
    """What the benchmark is, in plain words."""
    own = [run for run in bench.runs if run.benchmark == bench.name]
    known = [f"The benchmark is {about}." for about in sorted({run.config.about for run in own if run.config}) if about]
    if bench.synthetic:
        known.append("It is synthetic: drawn by a program, not photographed.")
    record = next((record for run in own for record in run.records), None)
    if record is not None:
        classes, batches = _many(len(record.order), "class", "classes"), _many(record.of, "batch", "batches")
        sizes = [len(batch) for batch in record.batches]
        again = "" if sum(sizes) == len(record.order) else ", and come again"
        known.append(
            f"{classes} arrive in {batches}, {_sizes(sizes)}{again}. The test set is fixed and holds all of them."
        )
    joined = [group.title for group in bench.groups if any(run.benchmark != bench.name for run in group.runs)]
    if joined:
        known.append(f"With batches joined, and shown where as many classes have been seen: {', '.join(joined)}.")
    return " ".join(known)


def _sizes(sizes: list[int]) -> str:
    """How many classes each batch holds, in words.

    >>> _sizes([10, 5, 5]), _sizes([2, 2]), _sizes([1, 2, 3])
    ('10 in the first and 5 in each later one', '2 in each', '1 to 3 in each')
    """
    first, later = sizes[0], set(sizes[1:])
    if later <= {first}:
        return f"{first} in each"
    if len(later) == 1:
        return f"{first} in the first and {later.pop()} in each later one"
    return f"{min(sizes)} to {max(sizes)} in each"


def _headline(bench: Comparison) -> Html:
    """The result in one sentence."""
    best = bench.best
    if best is None:
        return join("No run without rehearsal has finished yet.")
    others = [group for group in bench.groups if group.finished and not group.knows_task and group is not best]
    said = [
        tag("b", best.title),
        " recognises ",
        tag("b", _percent(best)),
        " of the fixed test set after the last batch",
    ]
    said += [", without keeping an old pattern"]
    said += [f"; {group.title}, the upper bound, {_percent(group)}" for group in others if group.upper_bound]
    said += [f"; {group.title}, plain training, {_percent(group)}" for group in others if group.strategy == BASELINE]
    return join(*said, ".")


def _percent(group: Group) -> str:
    return written(group.over("final"), 100).replace(" ", "\N{NO-BREAK SPACE}") + PERCENT


def _notes(bench: Comparison) -> Html:
    """What a reader must know before trusting a mean."""
    notes = [_unfinished(group.title, run) for group in bench.groups for run in group.unfinished]
    notes += [f"{place} repeats another run and is left out." for place in bench.repeated]
    notes += [f"{run.place} has no config.json." for run in bench.runs if run.config is None]
    return tag("ul", *(tag("li", note) for note in notes), class_="notes") if notes else Html()


def _unfinished(title: str, run: Run) -> str:
    last = run.events[-1] if run.events else None
    seen = f" It was last seen in batch {last.i}, epoch {last.epoch}, step {last.step}." if last else ""
    return f"{title}, run {run.number}, {run.progress}: it is in no mean.{seen}"
