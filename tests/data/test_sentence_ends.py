"""Sentences of running text: a table of cases, a sentence for each part between bars."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from probtrans_cli.data.tokens import split_sentences

CASES = """
The dog barks.| The cat sleeps.
Is it true?| Yes!| It is.
One sentence without a stop
Dr. Smith met Mrs. Jones at St. Mary's.| They talked.
He lives in the U.S. and likes it.| She lives in the U.K.| They met.
J. R. R. Tolkien wrote it.| C. S. Lewis read it.
J.R.R. Tolkien wrote it.
He arrived at 5 p.m. on Monday.| He left at 6 a.m.| The next day was calm.
We saw cats, dogs, etc.| The birds were gone.
See Fig. 3 and No. 5 on p. 12.| Is that clear?| No.| It is not.
The price is 3.50 dollars.| In 1999 it was 2.| We paid.
It happened in 1990.| Nobody saw it.
1. First item.| It is short.
Apple Inc. said so.| Apple Inc.| The end.
"Stop!" he said.| "I will not," she said.
"Stop!"| He stood still.
He said "stop."| Then he left.
She asked, "Why?" and left.
He left.| "Where to?" she asked.
(This is one.| This is two.)| This is three.
He left (see Sec. 2. It is short) and came back.| Good.
He left (he was tired.)| She stayed.
Visit www.example.com or write to a.b@example.com.| Thanks.
Version 2.0.1 is out.| Try it!
Well... I think so.| Hm ... maybe.
What?!| No way.
The dog barks .| The cat sleeps .
Mr . Smith barks .| Then he sleeps .
the dog barks. the cat sleeps.
He is 25.| She is 24.
On Jan. 5 we met.| The cat sat.| Then it slept.
I know vs. I guess, i.e. The Beatles.
Plan B.| The rest is history.
Am 3. Oktober war es so weit.| Dr. Müller kam z. B. nicht.| Prof. Meier auch.
Das kostet 5 Euro, d.h. Hunde zahlen mehr.| Gut.
« Viens ! » dit-il.| Elle vient.
Il a dit : « Viens. »| Elle est venue.
„Komm!“, sagte er.| Sie kam.
M. Dupont est là.| Mme Durand aussi.
¿Quién es?| ¡Es él!| Vale.
El Sr. García vino.| La Sra. López no.
Она пришла.| Он ушёл.
Ήρθε.| Έφυγε.
今天天气很好。|我们去公园吧！|好吗？
“你好。”|他说。
「行く。」と言った。|彼は来た。
هل جاء؟| نعم جاء.| ثم ذهب.
वह आया।| वह गया।
הוא בא.| היא הלכה.
그는 왔다.| 그녀는 갔다.
Նա եկավ։| Նա գնաց։
მოვიდა.| წავიდა.
[MASK] is here .| The [MASK] sleeps .
"""


def test_sentences_end_where_they_should() -> None:
    for case in CASES.strip().split("\n"):
        text = case.replace("|", "")
        assert [text[begin:end] for begin, end in split_sentences(text)] == [part.strip() for part in case.split("|")]


@given(st.text(alphabet="aA1 .!?。」「()\"'…\u00a0»«\tIé"))
def test_nothing_is_lost(text: str) -> None:
    spans = list(split_sentences(text))
    assert all(begin < end and text[begin:end] == text[begin:end].strip() for begin, end in spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert "".join("".join(text[begin:end].split()) for begin, end in spans) == "".join(text.split())
