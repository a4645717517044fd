"""The evaluation text that ships: short documents of different kinds, written for Rooftune and under its licence.

They are used to compare a model with itself before and after a change, never to rank models. Kinds matter because damage shows
in some (numbers, code) before others (prose).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

Kind = Literal["prose", "dialogue", "code", "list", "numbers", "instructions", "letter", "data"]


@dataclass(frozen=True, slots=True)
class Document:
    name: str
    kind: Kind
    text: str


def documents() -> tuple[Document, ...]:
    """All documents, in a fixed order."""
    return _DOCUMENTS


def text_hash(chosen: tuple[Document, ...] | None = None) -> str:
    """Identifies the text that was scored, for reports."""
    digest = hashlib.sha256()
    for document in chosen or _DOCUMENTS:
        digest.update(document.text.encode() + b"\x00")
    return digest.hexdigest()[:16]


_DOCUMENTS = (
    Document(
        "lighthouse",
        "prose",
        """The lighthouse at the end of the bay had been dark for eleven years when Marta bought it. The roof leaked, gulls \
nested in the lamp room, and the stairs groaned under every step, yet she had wanted it since she was a child. In the first week \
she swept out the sand and found, behind a loose board, a logbook written by the last keeper. He had noted the weather each \
morning and each evening, the ships that passed, and sometimes a line about himself. "Fog since Tuesday," said one page. "I talk \
to the bell now, and the bell is good company." Marta read until the light failed. Then she lit a candle, set it in the great \
empty lens, and sat down to write the first entry of her own. Far out on the water a fishing boat saw the small flame and \
sounded its horn twice, as boats used to do, and she laughed aloud in the empty tower.""",
    ),
    Document(
        "bread",
        "instructions",
        """How to bake a simple loaf of bread. First, weigh 500 grams of flour, 350 grams of water, 10 grams of salt and 5 \
grams of dry yeast. Mix the flour and the yeast in a large bowl, then add the water and stir until no dry flour is left. Cover the \
bowl with a cloth and let it rest for twenty minutes. Next, add the salt and knead the dough for about eight minutes, until it \
is smooth and pulls away from the bowl. Let it rise in a warm place for one hour, or until it has doubled in size. Shape the dough \
into a ball, put it on a sheet of baking paper, and let it rise again for thirty minutes. Heat the oven to 230 degrees. \
Finally, cut a cross into the top with a sharp knife and bake the loaf for thirty-five minutes. The bread is done when it \
sounds hollow if you knock on the bottom. Let it cool before you slice it.""",
    ),
    Document(
        "station",
        "dialogue",
        """"Excuse me, is this the platform for the train to Norwich?" asked the old man.
"It was," said the woman with the bicycle. "They changed it five minutes ago. You want platform seven now."
"Seven! That is on the other side, isn't it?"
"Over the bridge and then left. Do you need help with your suitcase?"
"That is very kind of you, but it is only heavy because of the books. My granddaughter turns eight tomorrow, and she has asked for \
all of the books about the dragon."
"All of them? How many are there?"
"Twelve so far. The author does not seem to get tired."
"Then let me take one handle and you take the other. My train is late anyway."
"Thank you. When I was eight, we had one book, and it was about potatoes."
She laughed. "Was it any good?"
"No," said the old man. "But I can still tell you how to store them through the winter.\"""",
    ),
    Document(
        "queue_code",
        "code",
        '''class RingBuffer:
    """A queue of fixed size that drops the oldest item when it is full."""

    def __init__(self, capacity):
        if capacity < 1:
            raise ValueError("capacity must be at least 1")
        self.items = [None] * capacity
        self.start = 0
        self.count = 0

    def push(self, item):
        end = (self.start + self.count) % len(self.items)
        self.items[end] = item
        if self.count == len(self.items):
            self.start = (self.start + 1) % len(self.items)
        else:
            self.count += 1

    def pop(self):
        if self.count == 0:
            raise IndexError("pop from an empty buffer")
        item = self.items[self.start]
        self.start = (self.start + 1) % len(self.items)
        self.count -= 1
        return item

    def __len__(self):
        return self.count


buffer = RingBuffer(3)
for number in range(5):
    buffer.push(number)
print([buffer.pop() for _ in range(len(buffer))])  # prints [2, 3, 4]
''',
    ),
    Document(
        "packing",
        "list",
        """Packing list for a week in the mountains:
1. Boots, already broken in, and two spare pairs of laces
2. Three pairs of wool socks and two pairs of thin socks
3. A rain jacket and rain trousers
4. A warm sweater, a hat and gloves, even in July
5. A sleeping bag for temperatures down to five degrees
6. A head torch with fresh batteries
7. A map on paper and a compass; the phone may lose its signal
8. Two water bottles of one litre each
9. Plasters, bandages, sun cream and a small pair of scissors
10. Bread, cheese, nuts, dried apples and chocolate
11. A stove, a pot, a spoon and matches in a dry bag
12. A book that is not too heavy
Leave at home: the big camera, the second pair of jeans, the laptop, and the idea that it will not rain.""",
    ),
    Document(
        "accounts",
        "numbers",
        """The shop opened in March with 1,200 euros in the till. In March it sold 310 loaves at 4 euros each, which makes 1,240 \
euros, and spent 860 euros on flour, rent and wages. At the end of March there were 1,580 euros in the till. In April it sold 405 \
loaves, 95 more than in March, for 1,620 euros, and spent 990 euros, so the till held 2,210 euros. In May the price rose to 4.50 \
euros. The shop sold 360 loaves for 1,620 euros and spent 1,010 euros, which left 2,820 euros. Over the three months it sold 1,075 \
loaves and took in 4,480 euros. The average month brought 1,493 euros and cost 953 euros. One quarter of all loaves, about 269, was \
sold on Saturdays. If June is like May, the till will hold 3,430 euros on the first of July.""",
    ),
    Document(
        "tides",
        "prose",
        """Why does the sea rise and fall twice a day? The moon pulls on the whole earth, but it pulls more strongly on the side \
that faces it than on the side that is turned away. The water on the near side is drawn a little towards the moon, and the water \
on the far side is left a little behind. So there are two bulges of water, one on each side, and as the earth turns under them a \
place on the coast passes through both in a little more than a day. The sun does the same, but less, because it is so far away. \
When sun and moon stand in one line, at new moon and at full moon, their pulls add up and the tide is especially high; these are \
called spring tides. When they stand at right angles, the tides are weaker. The shape of the coast matters as well: in a narrow \
bay the water piles up, and the sea can rise by more than ten metres, while in a closed sea it hardly moves at all.""",
    ),
    Document(
        "complaint",
        "letter",
        """Dear Sir or Madam,

On the fourth of May I ordered a blue garden chair from your shop, order number 48213. On the ninth of May a parcel arrived. It \
held a very nice green lamp, which I did not order and which does not look like a chair from any side. I wrote to you on the \
tenth and received an answer that thanked me for my praise. I am afraid there has been a misunderstanding.

Please let me know how I can send the lamp back and when I may expect my chair. I would be glad to have it before the twentieth of \
June, because on that day I have guests, and one of them would otherwise have to stand.

I look forward to your reply.

Yours faithfully,
Helen Abara""",
    ),
    Document(
        "planets",
        "data",
        """| planet  | moons | day in hours | year in days |
|---------|-------|--------------|--------------|
| Mercury | 0     | 4223         | 88           |
| Venus   | 0     | 2802         | 225          |
| Earth   | 1     | 24           | 365          |
| Mars    | 2     | 25           | 687          |

{"name": "Mars", "moons": ["Phobos", "Deimos"], "rings": false, "visited": true}
{"name": "Earth", "moons": ["Moon"], "rings": false, "visited": true}
{"name": "Venus", "moons": [], "rings": false, "visited": true}

name,moons,rings
Mercury,0,no
Venus,0,no
Earth,1,no
Mars,2,no
Jupiter,95,yes
Saturn,146,yes""",
    ),
    Document(
        "support",
        "dialogue",
        """User: My printer says that it is offline, but it is switched on. What can I do?
Assistant: Let us go through it step by step. First, check that the printer and the computer are in the same network. Is the small \
wireless lamp on the printer blue?
User: It is blinking orange.
Assistant: Then the printer has lost its connection. Hold the wireless button for five seconds until the lamp blinks blue, open the \
settings on your computer, and choose "Add a printer". It should appear in the list within a minute.
User: It is there now! But the old one is there too.
Assistant: Good. You can remove the old entry: select it, choose "Remove device", and confirm. Then print a test page from the new \
entry to make sure that it works.
User: The test page came out fine. Thank you!
Assistant: You are welcome. If it happens again, it may help to give the printer a fixed address in your router.""",
    ),
    Document(
        "sql_and_shell",
        "code",
        """-- Orders of the last month by customer, largest first.
SELECT c.name, COUNT(o.id) AS orders, SUM(o.total) AS spent
FROM customers AS c
JOIN orders AS o ON o.customer_id = c.id
WHERE o.created_at >= DATE('now', '-1 month')
GROUP BY c.id
HAVING COUNT(o.id) > 1
ORDER BY spent DESC
LIMIT 10;

#!/bin/sh
# Delete log files that are older than thirty days, and say how many there were.
folder="${1:-/var/log/app}"
count=$(find "$folder" -name '*.log' -mtime +30 | wc -l)
find "$folder" -name '*.log' -mtime +30 -delete
echo "removed $count old log files from $folder"

function average(values) {
  if (values.length === 0) {
    return null;
  }
  const sum = values.reduce((total, value) => total + value, 0);
  return sum / values.length;
}""",
    ),
    Document(
        "museum",
        "prose",
        """The museum of small machines is open from Tuesday to Sunday between ten and six. It stands in the old post office, and \
its two floors hold more than four hundred clocks, locks, music boxes and calculators. The oldest piece is a water clock of the \
sixteenth century; the youngest is a pocket computer from 1979 that can still add. Visitors may turn most of the handles \
themselves. Children like best the mechanical duck, which eats a grain, nods, and after a while does what ducks do. On the first \
Friday of each month a clockmaker takes one of the machines apart and explains how it works, and puts it together again, which \
takes longer. Tickets cost six euros, three for students, and nothing for those who bring a broken clock as a gift. The café \
behind the hall serves soup at noon and cake all day. Dogs are welcome in the garden but not near the duck.""",
    ),
)
