"""Law: report pages come from templates that escape every value; the first page loads Jinja2."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError
from markupsafe import Markup, escape

from twinloop.report.pages import fragments
from twinloop.report.pages.page import Page
from twinloop.report.pages.templating import load_environment, render_template

EVIL = "<script>alert('1')</script> & \"quoted\""


@pytest.mark.parametrize(
    "part",
    [
        fragments.render_paragraph(EVIL),
        fragments.render_paragraph("text", EVIL),
        fragments.render_heading(EVIL),
        fragments.render_link(EVIL, EVIL),
        fragments.render_answer([EVIL]),
        fragments.render_note(EVIL),
        fragments.render_list([EVIL]),
        fragments.render_contents([(EVIL, EVIL)]),
        fragments.render_cards([(EVIL, EVIL)]),
        fragments.render_table([EVIL], [[EVIL]], numbers=[EVIL], links={EVIL: EVIL}),
        fragments.render_status(EVIL),
        fragments.render_details(EVIL, EVIL),
        fragments.render_preformatted(EVIL),
    ],
)
def test_each_fragment_escapes_its_values(part: Markup) -> None:
    assert "<script" not in part
    assert str(escape(EVIL)).removesuffix("&#34;") in part


def test_a_part_of_a_page_that_is_not_markup_is_escaped_too() -> None:
    page = Page(EVIL, above=EVIL)
    page.add(EVIL)
    page.add_section(EVIL, EVIL)
    page.add_chapter(EVIL, EVIL, EVIL)
    text = page.render()
    assert "<script>alert" not in text
    assert text.count(str(escape(EVIL))) == 9


@given(st.text())
def test_markup_made_of_any_text_is_not_escaped_twice(text: str) -> None:
    inner = fragments.render_paragraph(text)
    assert inner in fragments.render_details("summary", inner)


def test_a_misspelt_name_in_a_template_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="'nmae' is undefined"):
        load_environment().from_string("{{ nmae }}").render(name="x")
    with pytest.raises(UndefinedError):
        render_template("message.html.j2", text="no base and no refresh")


def test_a_template_is_compiled_once_in_a_process() -> None:
    environment = load_environment()
    assert environment is load_environment()
    assert environment.get_template("page.html.j2") is environment.get_template("page.html.j2")


def test_the_same_parts_give_the_same_bytes() -> None:
    pages = []
    for _ in range(2):
        page = Page("Title", above="line")
        page.add_section("Section", fragments.render_table(["a"], [["PASS"]]))
        pages.append(page.render())
    assert pages[0] == pages[1]


def test_jinja2_is_loaded_with_the_first_page_and_not_before() -> None:
    code = (
        "import sys, twinloop.cli, twinloop.report; "
        "from twinloop.report.pages.study import write_study_page; "
        "assert 'jinja2' not in sys.modules; "
        "from twinloop.report.pages.page import Page; Page('x').render(); "
        "assert 'jinja2' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
