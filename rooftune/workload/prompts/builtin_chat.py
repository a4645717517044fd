"""Conversations with a company's support assistant, written for Rooftune.

Every request carries one shared system prompt of about 80 tokens (what a prefix cache can reuse) and a user's
question of 15 to 60 tokens, made from a template and drawn details, so that no two prompts of a run are alike.
"""

from __future__ import annotations

import random

from rooftune.workload.prompts.contract import Prompt

SYSTEM = (
    "You are the support assistant of Fernhill Outdoor, a company that sells tents, packs, boots and camp "
    "kitchens online and in twelve shops. Answer in plain English and in at most five short sentences. Be "
    "friendly, and never promise a refund or a delivery date. When you need an order number or a size, ask for "
    "exactly one thing at a time. Returns are free for thirty days."
)

TEMPLATES = (
    "My order {order} was sent on {weekday} but the tracking page has not moved since {city}. What should I do next?",
    "I want to walk for {days} days in the {place} in {month}. Which {item} would you take, and why that one?",
    "The zip on my {item} broke after {weeks} weeks. Can I repair it myself or do you have a workshop for that?",
    "Is the {colour} {item} the same size as the one from last year? Mine was a {size} and it fitted well.",
    "Please explain how to clean a {item} that smells of smoke after a week in the {place}. I have no machine at home.",
    "I am {height} centimetres tall and weigh {weight} kilos. Which size of {item} fits me, and should I try it in a shop?",
    "We are {people} people and two dogs. Do we need one big tent or two small ones for {days} nights in {month}?",
    "Can I cook in the porch of my tent when it rains, if I leave the door half open and use a {stove} stove?",
    "What is the difference between a {fill} fill sleeping bag and a synthetic one when the nights are at {degrees} degrees?",
    "I paid twice for order {order}, once by card and once by voucher. How do I get one payment back?",
    "Could you change the address of order {order} to my office in {city}? I am away until {weekday}.",
    "Your shop in {city} told me that the {item} comes back in {month}. Is there a way to be told by mail?",
    "How much water should I carry for {hours} hours of walking in the {place} when it is {degrees} degrees?",
    "I have a gift card with {money} dollars left. Can I use it together with the {month} sale on a {item}?",
    "My new boots hurt at the heel after {hours} hours. Is that normal, and how long does breaking in take?",
    "Which of your packs hold a bear canister and still leave room for {days} days of food? I am rather small.",
    "Can you write a short packing list for {days} days in the {place} in {month} for {people} adults?",
    "The pole of my tent snapped in the wind near {city}. Which splint fits a pole of {millimetres} millimetres?",
    "Do you ship a {stove} stove and its fuel to {city} by air, or must I buy the fuel there?",
    "I would like to return a {colour} {item} without the box. It was worn for {hours} hours indoors only.",
    "Tell me in simple words how a {fill} fill jacket keeps warm and why it must not get wet.",
    "My daughter is {age} years old and wants to carry her own pack. How heavy may it be for {hours} hours a day?",
    "What should I do if a thunderstorm comes while we camp above the tree line in the {place}?",
    "I ordered {people} headlamps, order {order}, and one of them only blinks. Do I have to send all of them back?",
    "Compare a canister stove with a {stove} stove for {days} days at {degrees} degrees. Weight matters most to me.",
    "Is it possible to rent a {item} for {days} days in {city}, and what does it cost if it comes back muddy?",
    "How do I seal the seams of a tent that is {age} years old? The floor is dry but the corners drip.",
    "Your mail says that order {order} is in two parcels. Only the one with the {item} came to {city}. Is that right?",
    "Why does my filter only give a thin stream after {weeks} weeks? The water in the {place} was quite brown.",
    "Suggest three easy dinners for {people} people on one burner. One of us eats no meat and one eats no milk.",
    "I want to buy a {item} as a present for my boss, who turns {weight} in {month}. My limit is {money} dollars.",
    "May I wash a {colour} rain jacket with normal soap, and how many times before it needs new proofing?",
    "How do I read the degree marks on a sleeping bag? It says comfort {degrees}, limit and extreme.",
    "We plan to sleep in a car near {city} in {month}. What helps against wet windows and cold feet?",
    "The colour of the {item} in the parcel is {colour}, but the order {order} says something else. Can I keep both?",
    "Do you offer a discount for a school class of {people} pupils that hikes {days} days in the {place}?",
    "Which insoles go with boots in size {size} when the arch is high and the walks take {hours} hours?",
    "Can a {item} be fixed to a bicycle rack, or would it be too wide at {millimetres} millimetres?",
    "I lost the bill for a {item} that I bought in {city} about {weeks} weeks ago. Is the warranty gone?",
    "Please tell me what a hydrostatic head of {millimetres} hundred means and whether it is enough for the {place}.",
    "How should I store a {item} over the winter in a damp cellar near {city}? I have no other room.",
    "Someone in your {city} shop was very kind to me on {weekday}. How can I leave a note for that person?",
    "My pack squeaks at the hip when I walk with more than {age} kilos. Is it the frame or the belt, and how do I tell?",
    "I need a tent that one person can put up in {minutes} minutes in strong wind. What do I look for?",
    "What are good ways to keep mice and ants off the food for {days} nights in the {place}?",
    "Can I change the {colour} straps of my {item} for longer ones? I wear a thick coat in {month}.",
    "Is my {stove} stove safe to use at {height} hundred feet, and why does the flame get weaker up there?",
    "Explain to a beginner how to choose between a hammock and a tent for {days} nights in {month}.",
)

_WORDS: dict[str, tuple[str, ...]] = {
    "weekday": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "month": ("March", "April", "May", "June", "July", "August", "September", "October", "November"),
    "city": (
        "Ashford",
        "Brookvale",
        "Carrick",
        "Dunmore",
        "Eastport",
        "Fairhaven",
        "Glenrock",
        "Harwick",
        "Inverlea",
        "Kingsbury",
        "Larchmont",
        "Millbrook",
        "Northgate",
        "Oakridge",
        "Pinecrest",
        "Rosedale",
    ),
    "place": (
        "northern hills",
        "high desert",
        "coast forest",
        "lake country",
        "river canyon",
        "volcano park",
        "western moors",
        "island trail",
        "glacier valley",
        "pine barrens",
    ),
    "item": (
        "two person tent",
        "day pack",
        "rain shell",
        "down jacket",
        "sleeping mat",
        "trail boot",
        "camp chair",
        "water filter",
        "trekking pole",
        "cook set",
        "dry bag",
        "wool blanket",
        "gaiter",
        "bivy sack",
    ),
    "colour": ("red", "olive", "grey", "navy", "orange", "sand", "black", "teal"),
    "stove": ("alcohol", "multi fuel", "wood", "remote canister", "petrol"),
    "fill": ("650", "700", "750", "800", "850", "900"),
    "size": ("38", "39", "40", "41", "42", "43", "44", "45", "46"),
}
_RANGES: dict[str, tuple[int, int]] = {
    "order": (100_000, 999_999),
    "days": (2, 21),
    "weeks": (2, 40),
    "height": (48, 205),
    "weight": (41, 120),
    "people": (2, 28),
    "degrees": (3, 39),
    "hours": (2, 12),
    "money": (15, 480),
    "millimetres": (6, 90),
    "age": (4, 19),
    "minutes": (2, 15),
}
_OPENINGS = (
    "Hello, {name} here.",
    "Hi, this is {name}.",
    "Good morning, my name is {name}.",
    "{name} from {city} here.",
    "Hello again, it is {name}.",
    "Hi there, {name} writing from {city}.",
    "Good evening, I am {name}.",
)
_NAMES = (
    "Ada",
    "Ben",
    "Chloe",
    "Dario",
    "Elif",
    "Farid",
    "Greta",
    "Hugo",
    "Ines",
    "Jonas",
    "Kemal",
    "Lena",
    "Mara",
    "Nils",
    "Olga",
    "Pavel",
    "Quinn",
    "Rosa",
    "Samir",
    "Tess",
    "Uma",
    "Viktor",
    "Wanda",
    "Yusuf",
    "Zoe",
)


def chat_prompts(count: int, seed: str) -> list[Prompt]:
    """``count`` conversations, all different, decided by ``seed`` alone."""
    draw = random.Random(seed)
    seen: set[str] = set()
    prompts: list[Prompt] = []
    order: list[str] = []
    while len(prompts) < count:
        if not order:
            order = list(TEMPLATES)
            draw.shuffle(order)
        template = order.pop()
        question = _fill(f"{draw.choice(_OPENINGS)} {template}", draw)
        # A prompt that was drawn before gets a ticket number, which no other has.
        if question in seen:
            question = f"{question} My ticket is {len(prompts) + 1}-{draw.randrange(10**6)}."
        seen.add(question)
        prompts.append(
            Prompt(
                messages=({"role": "system", "content": SYSTEM}, {"role": "user", "content": question}),
                output_tokens=64,
            )
        )
    return prompts


def _fill(template: str, draw: random.Random) -> str:
    values = {name: draw.choice(words) for name, words in _WORDS.items()}
    values.update({name: str(draw.randint(low, high)) for name, (low, high) in _RANGES.items()})
    return template.format(**values, name=draw.choice(_NAMES))
