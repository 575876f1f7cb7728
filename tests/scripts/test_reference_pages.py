"""What can be said of the reference's pages without a browser."""

from __future__ import annotations

import re

import pytest

from bench.spec import REPOSITORY

FILES = REPOSITORY / "fixtures" / "scripts" / "prefix-cache" / "sound" / "files"
PICTURE = REPOSITORY / "docs" / "images" / "prefix-cache.png"
SHOWN = sorted(path for path in FILES.iterdir() if path.suffix in (".html", ".css", ".mjs"))


@pytest.mark.parametrize("path", SHOWN, ids=lambda path: path.name)
def test_nothing_comes_from_elsewhere(path):
    text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"(?i)https?:|[\"'(]//|@import|fetch\(|XMLHttpRequest|WebSocket|eval\(", text)


@pytest.mark.parametrize("page", ["index.html", "embed.html"])
def test_a_page_reaches_only_files_that_exist(page):
    reached, waiting = set(), [page]
    while waiting:
        name = waiting.pop()
        reached.add(name)
        text = (FILES / name).read_text(encoding="utf-8")
        found = re.findall(r"""(?:from\s+['"]\./|href=["'])([\w-]+\.(?:mjs|css))['"]""", text)
        waiting += [other for other in found if other not in reached]
    assert {"model.mjs", "story.mjs", "scene.mjs", "figure.css"} <= reached


def test_every_hook_of_the_brief_is_there():
    frame = (FILES / "frame.mjs").read_text(encoding="utf-8")
    figure = (FILES / "figure.mjs").read_text(encoding="utf-8")
    readouts = (
        "promptTokens",
        "reusedTokens",
        "prefillTokens",
        "resumeSeconds",
        "prefillSeconds",
        "ttftSeconds",
        "usedBytes",
    )
    assert 'data-readout="kind"' in frame
    assert all(f"['{name}', " in frame for name in readouts)
    assert 'data-prompt="${number}"' in frame
    assert "data-figure data-phase=" in frame
    assert "JSON.stringify(value)" in frame
    assert "window.figureScript = story.script" in figure
    assert all(f"'{phase}'" in figure for phase in ("idle", "tour", "running", "paused"))


def test_the_pages_look_after_schemes_motion_and_sight():
    css = (FILES / "figure.css").read_text(encoding="utf-8")
    figure = (FILES / "figure.mjs").read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in css
    assert "prefers-reduced-motion: reduce" in figure
    assert "IntersectionObserver" in figure
    # Motion is drawn frame by frame, so that it can be held: no style sheet moves anything by itself.
    assert not re.search(r"(?m)^\s*(animation|transition)[\w-]*:|@keyframes", css)


def test_every_property_that_the_styles_use_is_set_somewhere():
    text = "".join((FILES / name).read_text(encoding="utf-8") for name in ("figure.css", "page.css", "embed.html"))
    code = "".join(path.read_text(encoding="utf-8") for path in SHOWN)
    used = set(re.findall(r"var\((--[\w-]+)\)", text))
    assert {name for name in used if f"{name}:" not in code and f"'{name}'" not in code} == set()


def test_every_control_yields_its_kind_in_any_order(reference):
    wrong = reference.evaluate("""
        const { cases, openStory } = await import('./story.mjs');
        let seed = 7;
        const press = () => 1 + ((seed = (seed * 48271) % 2147483647) % 4);
        const wrong = [];
        for (let round = 0; round < 8; round += 1) {
            const story = openStory(createCache());
            story.preload();
            for (let index = 0; index < 60; index += 1) {
                const number = index < 40 ? press() : 1 + (round % 4);
                const { kind } = story.submit(story.next(number)).outcome;
                if (kind !== cases[number]) wrong.push([round, index, number, kind]);
            }
        }
        return wrong;
    """)
    assert wrong == []


def test_the_picture_of_the_readme_is_a_small_png():
    data = PICTURE.read_bytes()
    assert data.startswith(b"\x89PNG")
    assert len(data) < 300_000
