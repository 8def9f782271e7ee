"""Words that try to be more than words, for every output format; all invented."""

from __future__ import annotations

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=1>",
    "<!--<script>",
    "]]>",
    "&amp;\"']]>",
    "javascript:alert(1)",
    "{{7*7}}${7*7}",
    "\\write18{rm}",
    "\\input{/etc/passwd}\\end{document}",
    "\\directlua{os.exit(3)}^^5cinput",
    "\\\\",
    "#1%&~^_$\\&\\begin{x}|[red]|",
    "\x00\x1b[31m\x07",
    "\u202etxt\u202c\u2066",
    "\u2028\u2029\x85",
    "\ud800",
    "\udfff\ufffe\uffff",
    "x" * 10_000,
    "e" + "\u0301" * 10_000,
    "\u200b\ufeff",
    "👩‍👩‍👧‍👦👍🏽",
    "",
    "two words\n",
    "a\tb",
    "\u0301",
    "日本語" * 30,
    "__proto__",
)
