"""A self-contained HTML page: text, charts and tables in one file, light and dark, nothing to load.

Only a page with entries has a script, which shows what they hold.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from ..checks import all_of, flag, instance
from ..errors import bad_argument
from . import svg
from .chart import LineChart, StackChart, Timeline

__all__ = ["Chart", "Entry", "Page"]

_STYLE = """
:root{color-scheme:light dark;--ground:#f5f6f8;--card:#fff;--ink:#1c2128;--soft:#5b6370;--rule:#d9dde3;--accent:#0b62a4}
@media (prefers-color-scheme:dark){:root{--ground:#0e1014;--card:#15181e;--ink:#e7e9ee;--soft:#9aa3b0;--rule:#2b303a;
--accent:#6db3f2}}
*{box-sizing:border-box}body{margin:0;background:var(--ground);color:var(--ink);
font:16px/1.5 system-ui,'Segoe UI',Helvetica,Arial,sans-serif}
main{max-width:104rem;margin:0 auto;padding:1.2rem clamp(.7rem,3vw,2rem) 3rem}
h1{font-size:1.6rem;line-height:1.2;margin:.4rem 0}h2{font-size:1.2rem;margin:2.2rem 0 .3rem}
p{max-width:48rem;margin:.4rem 0}.soft{color:var(--soft)}a{color:var(--accent)}
.row{display:grid;gap:.8rem;grid-template-columns:repeat(auto-fill,minmax(min(100%,30rem),1fr));margin:.8rem 0}
@media (min-width:64rem){.threes{grid-template-columns:repeat(3,minmax(0,1fr))}
.fours{grid-template-columns:repeat(2,minmax(0,1fr))}.entry .row{grid-template-columns:repeat(3,minmax(0,1fr))}}
@media (min-width:100rem){.fours{grid-template-columns:repeat(4,minmax(0,1fr))}}
.card{background:var(--card);border:1px solid var(--rule);border-radius:8px;padding:.4rem;min-width:0}
.facts{display:grid;gap:.8rem;grid-template-columns:repeat(auto-fit,minmax(min(46%,9.5rem),1fr));margin:1rem 0}
.facts .card{padding:.6rem .8rem}.facts b{display:block;font-size:1.5rem;line-height:1.2}.facts span{color:var(--soft);
font-size:.85rem;overflow-wrap:anywhere}
.wide{overflow-x:auto;background:var(--card);border:1px solid var(--rule);border-radius:8px}
dl.card{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:.2rem 1rem;margin:.8rem 0;padding:.7rem .9rem}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
@media (max-width:30rem){dl.card{grid-template-columns:minmax(0,1fr)}dd{margin-bottom:.4rem}}
table{border-collapse:collapse;font-size:.8rem;font-variant-numeric:tabular-nums;white-space:nowrap}
th,td{padding:.22rem .6rem;text-align:right;border-bottom:1px solid var(--rule)}th{position:sticky;top:0;
background:var(--card)}td.words,th.words{text-align:left}summary{cursor:pointer;padding:.4rem 0;color:var(--accent)}
"""
_ENTRY_STYLE = """
.broad{overflow-x:auto;margin:.8rem 0}.broad svg{min-width:58rem}
.entry{background:var(--card);border:1px solid var(--rule);border-radius:8px;margin:.4rem 0;padding:0 .8rem}
.entry>summary{display:grid;gap:.1rem 1rem;align-items:center;color:var(--ink);
grid-template-columns:minmax(0,1fr) repeat(3,7rem) 8rem}
.entry>summary b{overflow-wrap:anywhere;font-weight:600}
.entry>summary span{font-variant-numeric:tabular-nums;text-align:right;font-size:.9rem}
.entry>summary i{display:block;height:.7rem;border-radius:3px;background:var(--accent);min-width:1px}
.entry[open]>summary{border-bottom:1px solid var(--rule);margin-bottom:.5rem}.entry .card{border:0;padding:0}
.entry>summary:hover b{text-decoration:underline}
.sorts{display:flex;gap:.5rem;flex-wrap:wrap;align-items:center}
button{font:inherit;font-size:.85rem;color:var(--accent);background:var(--card);border:1px solid var(--rule);
border-radius:6px;padding:.2rem .6rem;cursor:pointer}
button[aria-pressed=true]{border-color:var(--accent);font-weight:600}
@media (max-width:44rem){.entry>summary{grid-template-columns:repeat(3,minmax(0,1fr))}
.entry>summary b{grid-column:1/-1}.entry>summary span{text-align:left}.entry>summary div{grid-column:1/-1}}
"""
_SCRIPT = """
const packs={},unpacked=name=>packs[name]||(packs[name]=(async()=>{
const packed=Uint8Array.from(atob(document.getElementById(name).textContent),c=>c.charCodeAt(0));
const stream=new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
return JSON.parse(await new Response(stream).text())})());
const entries=[...document.querySelectorAll('details.entry')];
entries.forEach(entry=>entry.addEventListener('toggle',async()=>{
const body=entry.querySelector('.body');
if(entry.open&&!body.firstChild){const [pack,place]=entry.dataset.body.split(' ');
body.innerHTML=(await unpacked('pack'+pack))[place]}}));
document.querySelectorAll('.sorts button').forEach(button=>button.addEventListener('click',()=>{
const by=+button.dataset.by,list=entries[0].parentNode;
document.querySelectorAll('.sorts button').forEach(b=>b.setAttribute('aria-pressed',b===button));
[...entries].sort((a,b)=>b.dataset.keys.split(' ')[by]-a.dataset.keys.split(' ')[by])
.forEach(entry=>list.append(entry))}));
if(entries.length)entries[0].open=true;
"""
_PACK = 16
"""Bodies that are packed, and unpacked, together."""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"

_NUMBER = re.compile(r"[-+]?(nan|inf|[\d.,]+(e[-+]?\d+)?)(%| [KMGT]?i?B| [mun]?s| [kMGT]?FLOP/s)?")

Chart = LineChart | StackChart | Timeline


@dataclass(frozen=True)
class Entry:
    """One entry of a list whose entries open when they are clicked.

    Parameters
    ----------
    title : str
    figures : sequence of str
        Three, beside the title.
    share : float
        From 0 to 1, as a bar.
    keys : sequence of float
        What the list may be sorted by: those that are greater come first.
    body : Page
        What it holds: the parts of another page.
    """

    title: str
    figures: Sequence[str]
    share: float
    keys: Sequence[float]
    body: Page


class Page:
    """A page that is put together from top to bottom and then written as one text.

    Parameters
    ----------
    title : str
        Its title and first heading.

    Examples
    --------
    >>> page = Page("Results")
    >>> page.paragraph("Two runs.")
    >>> "<h1>Results</h1>" in page.html()
    True
    """

    def __init__(self, title: str) -> None:
        instance("title", title, str, "a text")
        self._title = title
        self._parts: list[str] = []
        self._bodies: list[str] = []

    def heading(self, text: str) -> None:
        """Begin a section."""
        instance("text", text, str, "a text")
        self._parts.append(f"<h2>{escape(text)}</h2>")

    def paragraph(self, text: str, *, soft: bool = False) -> None:
        """Add a paragraph; `soft` ones are set back."""
        instance("text", text, str, "a text")
        soft = flag("soft", soft)
        self._parts.append(f"<p{' class=soft' if soft else ''}>{escape(text)}</p>")

    def facts(self, facts: Sequence[tuple[str, str]]) -> None:
        """Add a row of figures, each a value and what it is."""
        facts = all_of("facts", facts, tuple, "pairs of texts: a value, and what it is")
        if not all(len(fact) == 2 and all(isinstance(word, str) for word in fact) for fact in facts):
            raise bad_argument("facts", facts, "pairs of texts: a value, and what it is")
        cards = "".join(f"<div class=card><b>{escape(value)}</b><span>{escape(what)}</span></div>"
                        for value, what in facts)
        self._parts.append(f"<div class=facts>{cards}</div>")

    def charts(self, charts: Sequence[Chart]) -> None:
        """Add charts side by side, or below each other where the window is narrow, so that rows come out full."""
        charts = all_of("charts", charts, (LineChart, StackChart, Timeline), "charts")
        wide = [chart for chart in charts if isinstance(chart, Timeline) and chart.wide]
        self._parts += [f"<div class='card broad'>{svg.draw(chart, standalone=False)}</div>" for chart in wide]
        charts = [chart for chart in charts if chart not in wide]
        if not charts:
            return
        drawn = "".join(f"<div class=card>{svg.draw(chart, standalone=False)}</div>" for chart in charts)
        row = "row fours" if len(charts) % 4 == 0 else "row threes" if len(charts) % 3 == 0 else "row"
        self._parts.append(f"<div class='{row}'>{drawn}</div>")

    def pairs(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Add headings, each with what it says beside it, or below it where the window is narrow."""
        allowed = "pairs of texts"
        rows = [all_of("pairs", pair, str, allowed) for pair in all_of("pairs", pairs, object, allowed)]
        if any(len(row) != 2 for row in rows):
            raise bad_argument("pairs", pairs, allowed)
        listed = "".join(f"<dt>{escape(name)}</dt><dd>{escape(what)}</dd>" for name, what in rows)
        self._parts.append(f"<dl class=card>{listed}</dl>")

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]], *, summary: str,
              is_open: bool = False) -> None:
        """Add a table that opens when its summary is clicked, or is open to begin with."""
        instance("summary", summary, str, "a text")
        heads = all_of("heads", heads, str, "texts")
        rows = [all_of("rows", row, str, "rows of texts") for row in all_of("rows", rows, object, "rows of texts")]
        if any(len(row) != len(heads) for row in rows):
            raise bad_argument("rows", rows, f"rows of {len(heads)} texts, one for each head")
        numeric = [all(_is_number(row[i]) for row in rows) for i in range(len(heads))]
        marks = ["" if n else " class=words" for n in numeric]
        head = "".join(f"<th{mark}>{escape(text)}</th>" for text, mark in zip(heads, marks, strict=True))
        body = "".join("<tr>" + "".join(f"<td{mark}>{escape(text)}</td>" for text, mark in zip(row, marks, strict=True))
                       + "</tr>" for row in rows)
        self._parts.append(f"<details{' open' * is_open}><summary>{escape(summary)}</summary><div class=wide><table>"
                           f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></details>")

    def download(self, name: str, text: str) -> None:
        """Add a link that saves `text` as a file; the page carries it."""
        for word, given in (("name", name), ("text", text)):
            instance(word, given, str, "a text")
        data = base64.b64encode(text.encode(errors="replace")).decode()
        self._parts.append(f"<p><a download='{escape(name)}' href='data:text/csv;base64,{data}'>Save {escape(name)}"
                           "</a></p>")

    def entries(self, entries: Sequence[Entry], sorts: Sequence[str]) -> None:
        """Add a list of entries, once in a page; the first is open. `sorts` names what their keys are, in order."""
        entries = all_of("entries", entries, Entry, "entries")
        sorts = all_of("sorts", sorts, str, "texts")
        if self._bodies or any(len(entry.keys) != len(sorts) for entry in entries):
            raise bad_argument("entries", f"{len(entries)} entries", f"one list in a page, each with {len(sorts)} keys")
        self._bodies = ["".join(entry.body._parts) for entry in entries]
        buttons = "".join(f"<button data-by={i} aria-pressed={'true' if i == 0 else 'false'}>{escape(name)}</button>"
                          for i, name in enumerate(sorts))
        shown = "".join(_shown(entry, i) for i, entry in enumerate(entries))
        self._parts.append(f"<div class=sorts><span class=soft>sorted by</span>{buttons}</div><div>{shown}</div>"
                           "<noscript><p>What the entries hold is shown by a script of this page.</p></noscript>")

    def html(self) -> str:
        """Return the whole page."""
        style, policy, script = f"{_STYLE}{svg.STYLE}", "", ""
        if self._bodies:
            packs = (self._bodies[first: first + _PACK] for first in range(0, len(self._bodies), _PACK))
            held = "".join(f"<script type='text/plain' id=pack{i}>{_packed(pack)}</script>"
                           for i, pack in enumerate(packs))
            style += _ENTRY_STYLE
            policy = f'<meta http-equiv=Content-Security-Policy content="{_POLICY}">'
            script = f"{held}<script>{_SCRIPT}</script>"
        return (f"<!doctype html><html lang=en><head><meta charset=utf-8><title>{escape(self._title)}</title>"
                f"<meta name=viewport content='width=device-width,initial-scale=1'>{policy}"
                f"<style>{style}</style></head><body><main><h1>{escape(self._title)}</h1>"
                f"{''.join(self._parts)}</main>{script}</body></html>\n")


def _shown(entry: Entry, number: int) -> str:
    """An entry that is closed."""
    keys = " ".join(f"{key:g}" for key in entry.keys)
    figures = "".join(f"<span>{escape(figure)}</span>" for figure in entry.figures)
    return (f"<details class=entry data-body='{number // _PACK} {number % _PACK}' data-keys='{keys}'><summary>"
            f"<b>{escape(entry.title)}</b>{figures}"
            f"<div><i style='width:{100 * entry.share:.4g}%'></i></div></summary><div class=body></div></details>")


def _packed(bodies: Sequence[str]) -> str:
    """Bodies as text that holds no markup."""
    return base64.b64encode(gzip.compress(json.dumps(bodies).encode(errors="replace"), mtime=0)).decode()


def _is_number(text: str) -> bool:
    """Whether a cell is empty or a number, perhaps with a unit of bytes, time or rate."""
    return not text or _NUMBER.fullmatch(text) is not None
