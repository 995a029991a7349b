"""Names that call `xss()` if a page does not escape them."""

from __future__ import annotations

from ml_metrics.core.model import Bounds, JobStatus, Metric, Outcome, Run, Verdict, Workload
from ml_metrics.warehouse import RunRecord, run_record

STRINGS = (
    "<script>xss()</script>",
    "</script><script>xss()</script>",
    "</SCRIPT ><SCRIPT>xss()</SCRIPT>",
    "<scr<script>ipt>xss()</scr</script>ipt>",
    "<script src=data:text/javascript,xss()></script>",
    "<script>/*", "*/xss()</script>",
    "<!--<script>xss()//-->", "--><script>xss()</script>", "<![CDATA[<script>xss()</script>]]>",
    "]]><script>xss()</script>",
    "<img src=x onerror=xss()>",
    "<img src=x onerror=xss()//",
    '"><img src=x onerror=xss()>',
    "'><img src=x onerror=xss()>",
    "`><img src=x onerror=xss()>",
    "<IMG SRC=x OnErRoR=xss()>",
    "<img/src=x/onerror=xss()>",
    "<img src=x:x onerror\n=xss()>",
    "<svg onload=xss()>",
    "<svg/onload=xss()>",
    "<svg><script>xss()</script></svg>",
    "<svg><animate onbegin=xss() attributeName=x dur=1s>",
    "<svg><a href=javascript:xss()><text x=20 y=20>x</text></a></svg>",
    "<math><mtext></mtext><script>xss()</script></math>",
    "<body onload=xss()>",
    "<iframe src=javascript:xss()></iframe>",
    "<iframe srcdoc='<script>parent.xss()</script>'></iframe>",
    "<object data=javascript:xss()></object>",
    "<embed src=javascript:xss()>",
    "<video><source onerror=xss()></video>",
    "<audio src=x onerror=xss()></audio>",
    "<details open ontoggle=xss()>",
    "<input autofocus onfocus=xss()>",
    "<select autofocus onfocus=xss()>",
    "<textarea autofocus onfocus=xss()></textarea>",
    "<marquee onstart=xss()>",
    "<style>@import 'javascript:xss()';</style>",
    "</style><script>xss()</script>", "</title><script>xss()</script>", "</textarea><script>xss()</script>",
    "</option></select><script>xss()</script>", "</datalist><script>xss()</script>",
    "<base href=javascript:xss()//>",
    "<meta http-equiv=refresh content='0;url=javascript:xss()'>",
    "<link rel=stylesheet href=javascript:xss()>",
    "<form action=javascript:xss()><button>x</button></form>",
    '" onmouseover=xss() x="', "' onmouseover=xss() x='", " onfocus=xss() autofocus tabindex=0 ",
    '" autofocus onfocus=xss() x="',
    "javascript:xss()", "JaVaScRiPt:xss()", "java\tscript:xss()", "data:text/html,<script>xss()</script>",
    "vbscript:xss()", "//evil.example/x.js",
    "&lt;script&gt;xss()&lt;/script&gt;", "&#60;script&#62;xss()&#60;/script&#62;", "\\u003cscript\\u003exss()",
    "\\x3cscript\\x3exss()\\x3c/script\\x3e", "%3Cscript%3Exss()%3C/script%3E",
    "{{ xss() }}", "${xss()}", "#{xss()}", "{% print(xss()) %}", "{{ ''.__class__.__mro__ }}",
    "';xss();//", '";xss();//', '\\";xss();//', "`;xss();//", "\u2028xss()//", "\u2029xss()//",
    "datum.constructor.constructor('xss()')()", "__proto__", "constructor",
    "\u202e<script>xss()</script>", "\x00<script>xss()</script>", "\ufeff<script>xss()</script>",
)  # fmt: skip


def run_of_everything(test: str, ended: object, names: tuple[str, ...] = STRINGS) -> RunRecord:
    """Return a run with hostile text in every field that a page shows, and one metric for each name."""
    first = names[0]
    bounds = Bounds(upper=1.0)
    verdicts = [Verdict(name, Outcome.FAIL, 2.0, bounds, f"rule {name}", 3, name) for name in names]
    return run_record(
        Run(test, test, f"manual__{test}", "local"),
        Workload(
            JobStatus.SUCCESS, failure_reason=first, detail=first, started_at=ended, ended_at=ended, image=first,  # type: ignore[arg-type]
            logs_link="javascript:xss()", workload_link=f'https://x.example/"><script>xss()</script>{first}',
            logs_command=first,
        ),
        [Metric(name, 2.0, name, "final") for name in names],
        verdicts,
        dict.fromkeys(names, first),
        test_type=first,
        accelerator=first,
        framework_version=first,
        owner=first,
    )  # fmt: skip
