"""Law: a term has one definition, which pages and documentation share, and links lead to it."""

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from twinloop.report import write_run_page
from twinloop.report.glossary import TERMS, format_markdown
from twinloop.report.pages.fragments import render_paragraph, render_preformatted, render_table
from twinloop.report.pages.page import Page
from twinloop.report.pages.term_links import link_terms

from .page_reader import PageReader, check_loads_nothing
from .sample_runs import draw_tasks, run_fcfs

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_documentation_has_the_table_of_the_module() -> None:
    page = (DOCS / "glossary.md").read_text(encoding="utf-8")
    assert page == format_markdown(), "run: python -m twinloop.report.glossary > docs/glossary.md"


def test_terms_are_in_alphabetical_order_and_defined_once_in_at_most_two_sentences() -> None:
    names = [term.name.lower() for term in TERMS]
    assert names == sorted(names)
    forms = [form.lower() for term in TERMS for form in (term.name, *term.forms)]
    assert len(forms) == len(set(forms))
    assert len({term.anchor for term in TERMS}) == len(TERMS)
    for term in TERMS:
        sentences = re.findall(r"[^.]\.(?= [A-Z]|$)", term.definition.replace("et al.", "et al"))
        assert 1 <= len(sentences) <= 2, term.name
        assert term.definition.endswith(".")


def test_every_term_link_of_a_page_leads_to_its_definition(tmp_path: Path) -> None:
    text = write_run_page(run_fcfs(draw_tasks(20)), tmp_path / "run.html").read_text("utf-8")
    page = PageReader(text)
    check_loads_nothing(text, page)
    links = [attrs["href"] for tag, attrs in page.tags if attrs.get("class") == "term"]
    anchors = [f"#{attrs['id']}" for tag, attrs in page.tags if tag == "dt" and "id" in attrs]
    assert "#term-makespan" in links
    assert len(links) == len(set(links))
    assert sorted(x or "" for x in links) == sorted(anchors)
    for term in TERMS:
        assert (f"#{term.anchor}" in links) == (term.definition in page.text)


def test_data_and_parts_of_identifiers_are_not_linked() -> None:
    parts = [
        render_preformatted("makespan"),
        render_table(["name"], [["makespan"]]),
        render_paragraph("makespan_s, study.yaml, runs/twin, re-calibration, losses.py"),
    ]
    linked, terms = link_terms(list(parts))
    assert linked == parts
    assert terms == []


def test_a_term_with_an_apostrophe_is_linked_as_a_whole() -> None:
    (linked,), terms = link_terms([render_paragraph("Kendall's tau")])
    assert linked == ('<p><a class="term" href="#term-kendall-s-tau">Kendall&#39;s tau</a></p>')
    assert [term.name for term in terms] == ["Kendall's tau"]


@given(st.text())
def test_links_change_no_other_text(text: str) -> None:
    part = render_paragraph(text)
    (linked,), _ = link_terms([part])
    assert re.sub(r'<a class="term"[^>]*>([^<]*)</a>', r"\1", linked) == part


def test_a_page_without_terms_has_no_glossary() -> None:
    assert 'id="glossary"' not in Page("Title").render()
    page = Page("Title")
    page.define_terms([("2x1", "2 nodes of 1 core each.")], ["twin"])
    assert "2 nodes of 1 core each." in page.render()
    assert 'id="term-twin"' in page.render()
