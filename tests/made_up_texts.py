"""Small corpora in the forms of the real ones, for trainings that take seconds."""

import json
import random

FEELINGS = {
    "sadness": ["gloomy", "lost", "hopeless"],
    "joy": ["happy", "cheerful", "delighted"],
    "love": ["loving", "tender", "fond"],
    "anger": ["furious", "annoyed", "bitter"],
    "fear": ["scared", "nervous", "shaky"],
    "surprise": ["amazed", "stunned", "curious"],
}
PEOPLE = ["Ann", "Bob", "Eve", "Sam"]
THINGS = ["tea", "a book", "the keys", "lunch"]
RELATIONS = ["entailment", "neutral", "contradiction"]


def emotion(folder, train=60, held_out=24):
    """`text;label` lines; the last training line is a copy of the first with another label."""
    lot = random.Random(0)
    for name, count in {"train": train, "val": held_out, "test": held_out}.items():
        lines = [_feeling(lot, place) for place in range(count)]
        if name == "train":
            lines[-1] = lines[0].partition(";")[0] + ";anger"
        (_made(folder / "emotion") / f"{name}.txt").write_text("\n".join(lines) + "\n")
    return folder


def _feeling(lot, place):
    label = list(FEELINGS)[place % 6]
    padding = " ".join(["really"] * lot.randrange(9))
    return f"i feel {padding} {lot.choice(FEELINGS[label])} today;{label}"


def mnli(folder, train=48, held_out=18):
    """Premise, hypothesis and label, with tabs between."""
    lot = random.Random(1)
    for name, count in {"train": train, "dev": held_out}.items():
        lines = [_pair(lot, place) for place in range(count)]
        (_made(folder / "mnli") / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    return folder


def _pair(lot, place):
    who, what = lot.choice(PEOPLE), lot.choice(THINGS)
    relation = RELATIONS[place % 3]
    said = {"entailment": f"{who} has {what}", "neutral": f"{who} likes it", "contradiction": f"{who} has nothing"}
    return f"{who} buys {what}\t{said[relation]}\t{relation}"


def samsum(folder, train=40, held_out=16):
    """Dialogues and their summaries."""
    lot = random.Random(2)
    for name, count in {"train": train, "validation": held_out, "test": held_out}.items():
        rows = [json.dumps(_dialogue(lot, f"{name}-{place}")) for place in range(count)]
        (_made(folder / "samsum") / f"{name}.json").write_text("\n".join(rows) + "\n")
    return folder


def _dialogue(lot, key):
    one, two, what = lot.choice(PEOPLE), lot.choice(PEOPLE), lot.choice(THINGS)
    turns = [f"{one}: do you want {what}?", f"{two}: yes please!"] + [f"{one}: ok"] * lot.randrange(4)
    return {"id": key, "dialogue": "\r\n".join(turns), "summary": f"{one} will bring {two} {what}."}


def squad(folder, articles=6, questions=8):
    """Nested JSON; every passage holds its answers, and a long one is cut by a small model."""
    lot = random.Random(3)
    data = [{"title": f"Article {n}", "paragraphs": [_paragraph(lot, n, questions)]} for n in range(articles)]
    (_made(folder / "squad") / "dev-v1.1.json").write_text(json.dumps({"version": "1.1", "data": data}))
    return folder


def _paragraph(lot, number, questions):
    facts = [f"{who} bought {what} in {lot.randrange(1900, 2000)}" for who in PEOPLE for what in THINGS]
    context = f"Story {number}. " + ". ".join(lot.sample(facts, questions)) + "."
    asked = [fact for fact in facts if fact in context]
    return {"context": context, "qas": [_question(context, fact, place) for place, fact in enumerate(asked)]}


def _question(context, fact, place):
    said, _, year = fact.rpartition(" in ")
    start = context.index(fact) + len(said) + len(" in ")
    answers = [{"text": year, "answer_start": start}]
    return {"id": f"q{place}", "question": f"When was it that {said}?", "answers": answers}


def _made(folder):
    folder.mkdir(parents=True, exist_ok=True)
    return folder
