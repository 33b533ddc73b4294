"""The page's stylesheet: calm, readable on a phone and in print, light and dark."""

from assay.reports import style

_RULES = """
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; max-width: 1280px; padding: 28px 24px 64px; background: var(--page);
  color: var(--ink); font: 15px/1.5 var(--font); }
h1 { font-size: 22px; line-height: 1.25; margin: 0 0 10px; overflow-wrap: anywhere; }
h2 { font-size: 17px; margin: 40px 0 10px; padding-bottom: 5px;
  border-bottom: 1px solid var(--line); }
h3 { font-size: 14px; margin: 22px 0 8px; }
p { margin: 6px 0; }
.verdict { display: inline-block; font-weight: 600; padding: 3px 12px; border-radius: 6px;
  background: var(--raised); border-left: 4px solid var(--quiet); }
.verdict.failed { border-color: var(--failed); }
.verdict.warned { border-color: var(--warned); }
.verdict.ok { border-color: var(--ok); }
.facts { display: flex; flex-wrap: wrap; gap: 0 18px; padding: 0; margin: 10px 0 0;
  list-style: none; color: var(--quiet); font-size: 13px; overflow-wrap: anywhere; }
.problems { padding: 10px 14px 10px 30px; margin: 18px 0 0; background: var(--raised);
  border-left: 4px solid var(--warned); border-radius: 6px; overflow-wrap: anywhere; }
.answers { padding: 0 0 0 18px; margin: 14px 0 0; overflow-wrap: anywhere; }
.note, .reasons { color: var(--quiet); font-size: 12.5px; max-width: 90ch;
  overflow-wrap: anywhere; }
.reasons { padding-left: 0; list-style: none; margin: 6px 0; }
.scroll { overflow: auto; max-height: 78vh; }
#outcomes .scroll { max-height: 40vh; }
thead th { position: sticky; top: 0; background: var(--page); z-index: 1;
  box-shadow: inset 0 -1px 0 var(--line); }
tr.begins td { border-top: 2px solid var(--line); }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: 5px 12px 5px 0;
  border-bottom: 1px solid var(--line); }
td { min-width: 3.5em; max-width: 60ch; overflow-wrap: break-word; }
th { vertical-align: bottom; font-weight: 600; }
th.number, td.number { text-align: right; }
td.number { white-space: nowrap; }
td.name { font: 12px/1.6 var(--code); }
tbody tr:hover { background: var(--raised); }
th button { all: unset; cursor: pointer; line-height: 1.3; }
th button:focus-visible { outline: 2px solid var(--ink); outline-offset: 2px; }
th button::after { content: "\\00a0↕"; color: var(--quiet); opacity: 0.45; }
th[aria-sort=ascending] button::after { content: "\\00a0↑"; opacity: 1; color: inherit; }
th[aria-sort=descending] button::after { content: "\\00a0↓"; opacity: 1; color: inherit; }
th small, td small { color: var(--quiet); font-weight: 400; font-size: 11.5px; }
td small { display: block; white-space: nowrap; }
td sup { color: var(--quiet); }
td[title] { cursor: help; }
.failed { color: var(--failed); }
.warned { color: var(--warned); }
.ok { color: var(--ok); }
td.failed, td.warned { font-weight: 600; }
.figures { display: grid; gap: 8px 36px;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr)); }
figure { margin: 12px 0 16px; min-width: 0; break-inside: avoid; }
figcaption { font-weight: 600; font-size: 14px; margin-bottom: 4px; }
.chart { width: 100%; min-height: 120px; }
.drawing { display: block; width: 100%; max-width: 600px; height: auto; }
.drawing text { fill: var(--quiet); font-size: 12px; }
.heat { fill: var(--heat); }
.ground { fill: var(--raised); }
.curve { fill: none; stroke-width: 1.8; }
.curve.quiet { stroke: var(--quiet); stroke-width: 1.3; }
.rule { fill: none; stroke: var(--line); }
.panels { font: inherit; font-size: 13px; color: var(--ink); background: var(--raised);
  border: 1px solid var(--line); border-radius: 5px; padding: 3px 6px; margin-bottom: 6px;
  max-width: 100%; }
summary { cursor: pointer; font-size: 17px; font-weight: 600; margin: 40px 0 10px;
  padding-bottom: 5px; border-bottom: 1px solid var(--line); }
.folded summary { font-size: 12.5px; font-weight: 400; color: var(--quiet); margin: 6px 0;
  border: 0; padding: 0; }
summary:focus-visible { outline: 2px solid var(--ink); }
@media screen and (min-width: 900px) { td.name wbr { display: none; } }
@media (max-width: 600px) {
  body { padding: 18px 14px 48px; }
  table { font-size: 12.5px; }
  .drawing text { font-size: 15px; }
  th:not([aria-sort]) button::after { content: ""; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 11px; }
  table { font-size: 9.5px; }
  .scroll, #outcomes .scroll { overflow: visible; max-height: none; }
  thead th { position: static; }
  .panels { border: 0; appearance: none; padding: 0; }
  th button::after { content: ""; }
  tr { break-inside: avoid; }
  h2, h3, summary { break-after: avoid; }
}
"""


def stylesheet() -> str:
    """The rules, with the colours of the light page unless a dark one is preferred on a screen."""
    fonts = (
        f":root {{ color-scheme: light dark; --font: {style.FONT}; --code: {style.CODE_FONT}; }}"
    )
    dark = f"@media screen and (prefers-color-scheme: dark) {{ {_variables(style.DARK)} }}"
    return "\n".join((fonts, _variables(style.LIGHT), dark, _RULES))


def _variables(colours: dict[str, str]) -> str:
    return ":root { " + " ".join(f"--{name}: {value};" for name, value in colours.items()) + " }"
