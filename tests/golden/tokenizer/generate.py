#!/usr/bin/env python3
"""Makes the golden files of the tokenizer tests with the `tokenizers` package, or checks a program against it.

    generate.py write            corpus.jsonl, gpt2.json, llama3.json and their ids, in this folder
    generate.py check PROGRAM    fresh random texts through `PROGRAM data tokenize` and through the package
"""
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).resolve().parent
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")

SENTENCES = """\
The quick brown fox jumps over the lazy dog; it's 3.14159 times as fast, they'll say, and we've seen WORSE.
In the beginning was the word, and the word was with a tokenizer, and the tokenizer wasn't sure it'd cope.
Der schnelle braune Fuchs springt über den faulen Hund, außer wenn's Straßenbahnen gibt: Größe 42.
Portez ce vieux whisky au juge blond qui fume; l'été où naïve Zoë a goûté le maïs, « ça va » ?
El pingüino Wenceslao hizo kilómetros bajo exhaustiva lluvia y frío, ¿añoraba a su querido cachorro?
Luís argüia à Júlia que «brações, fé, chá, óxido, pôr, zângão» eram palavras do português.
Pchnąć w tę łódź jeża lub ośm skrzyń fig. Příliš žluťoučký kůň úpěl ďábelské ódy. Árvíztűrő tükörfúrógép.
Съешь же ещё этих мягких французских булок, да выпей чаю. Ґанок їхнього дому. Ђачки љубав џеп.
Ξεσκεπάζω την ψυχοφθόρα βδελυγμία, ὦ ἄνδρες Ἀθηναῖοι. Փոքրիկ աղջիկը։ გთხოვთ ახლავე გაიაროთ.
דג סקרן שט בים מאוכזב ולפתע מצא חברה. בְּרֵאשִׁית בָּרָא אֱלֹהִים. צירוף.
صِف خَلقَ خَودِ كَمِثلِ الشَمسِ إِذ بَزَغَت. کتاب‌ها و می‌خواهم ۱۲۳۴. ہر انسان آزاد پیدا ہوا۔
सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता प्राप्त है। क्षत्रिय १२३ কিন্তু সমস্ত মানুষ।
ਸਾਰੇ ਮਨੁੱਖ ગુજરાતી ଓଡ଼ିଆ தமிழ் எழுத்து తెలుగు లిపి ಕನ್ನಡ ಲಿಪಿ മലയാളം ලිපි සිංහල.
มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกัน ๑๒๓ ມະນຸດ ကမ္ဘာ့ မြန်မာ ភាសាខ្មែរ བོད་སྐད་ ꦧꦱꦗꦮ.
人人生而自由，在尊严和权利上一律平等。「漢字」と仮名：すべての人間は、生まれながらにして自由であり、カタカナ１２３。
모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. ㄱㄴㄷ 한글 조합형.
ሁሉም ሰዎች ነጻ ሆነው ይወለዳሉ። ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ ᐃᓄᒃᑎᑐᑦ ᠮᠣᠩᠭᠣᠯ ᚠᚢᚦᚨᚱᚲ 𐌰𐌱𐌲 𐎀𐎁 𒀀𒀁 𓀀𓁐 𝔐𝕒𝓽𝚑 𞤀𞤣𞤤𞤢𞤥.
Tiếng Việt có dấu: Trăm năm trong cõi người ta, chữ tài chữ mệnh khéo là ghét nhau. Ọ̀ṣọ̀ Yorùbá.
""".splitlines()

EMOJI = ["👩‍👩‍👧‍👦 👨🏽‍🚀👩🏿‍⚕️🏳️‍🌈🏴‍☠️", "🇩🇪🇫🇷🇯🇵🇧🇷🇺🇳 flags🇸🇪flags", "👍👍🏻👍🏼👍🏽👍🏾👍🏿 🤷🏻‍♀️", "❤️ ❤ ☺︎ 1️⃣ #️⃣ *️⃣ ✌️",
         "🏴󠁧󠁢󠁥󠁮󠁧󠁿 🏴󠁧󠁢󠁳󠁣󠁴󠁿", "😀😃😄😁text😆😅🤣 🙂🙃"]
SPACES = [0x9, 0xA, 0xB, 0xC, 0xD, 0x1C, 0x1D, 0x1E, 0x1F, 0x20, 0x85, 0xA0, 0x1680, 0x180E, *range(0x2000, 0x2010),
          0x2028, 0x2029, 0x202F, 0x205F, 0x2060, 0x3000, 0xFEFF]
EDGES = ["", " ", "  ", "\n", "\r\n", "\r\n\r\n", " \n ", "\t\t x", "a  b   c    d", "end  ", "  start", "a\n\n\nb \n c\r\r\nd",
         "I'm you're he's SHE'S they'Ve we'LL I'd don't 'tis 's''s 'S ſ'ſ 'll'll rock'n'roll o’clock ’s",
         "0 1 12 123 1234 12345 1234567890 3.14 1,000,000 ½ ² Ⅷ ٣٤ ४२ 一二三 1st 2nd x86_64 0xFF",
         "e\u0301 é a\u0308\u0323o\u0302 Z\u0351\u036b\u0343\u032a\u0302\u036b\u033da\u034f\u0334\u0319\u0324l",
         "\0\1\2\x07\x08\x1b[31mred\x1b[0m\x7f\x80\x9f", "a" * 3000, "ab" * 2000, "=" * 500, "-" * 81, " " * 300, "\n" * 120,
         "é" * 700, "漢" * 700, "😀" * 200, "aA" * 50 + "1" * 50 + "!" * 50, "https://example.org/a?b=c&d=e#f foo@bar.org",
         "for (int i=0;i<n;++i) {\n\tx[i] += y[i]; // ok\n}\n", "\ufdfa ﷺ ﬀ ﬁ ſt Ǆ ǅ ǆ İ ı ẞ K Å", "\u200b\u200c\u200d\ufeff\u2060",
         "<|endoftext|>", "a<|endoftext|>b <|endoftext|><|endoftext|> c", "<|end<|endoftext|>oftext|>", "<|special|><|special|>x",
         "<|begin_of_text|>hello<|end_of_text|>", "caf<|endoftext|>\u0301", "\U0010ffff\U000e0001\ue000\uffff\ufffe"]


def spread_over_scripts(seed, every):
    """Characters of every block, alone and next to letters, digits, spaces and punctuation."""
    pick = random.Random(seed)
    known = [c for c in map(chr, range(0x110000)) if unicodedata.category(c) not in ("Cn", "Cs", "Co")]
    texts = []
    for start in range(0, len(known), every * 40):
        chosen = known[start:start + every * 40:every]
        texts.append("".join(c + pick.choice(["", "", " ", "a", "1", "!", "\n", "'s"]) for c in chosen))
    return texts


def cases():
    around = ["a{}b", "a {}b", "a{} b", "1{}{}2", " {}{} x", "{}\n", "!{}?"]
    spaces = ["|".join(form.replace("{}", chr(space)) for form in around) for space in SPACES]
    return SENTENCES + EMOJI + EDGES + spaces + spread_over_scripts(1, 23)


def trained(pre_tokenizer, ignore_merges, specials, size):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=specials, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([t for t in cases() if len(t) < 400] * 2, trainer)
    return tokenizer


def gpt2():
    return trained(pre_tokenizers.ByteLevel(add_prefix_space=False), False, ["<|endoftext|>"], 3000)


def llama3():
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    split = pre_tokenizers.Split(Regex(LLAMA3), behavior="isolated")
    tokenizer = trained(pre_tokenizers.Sequence([split, byte_level]), True, [], 3500)
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|special|>"])
    begin = tokenizer.token_to_id("<|begin_of_text|>")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", begin)])
    return tokenizer


def saved(tokenizer, path, merges_as_text):
    content = json.loads(tokenizer.to_str())
    if merges_as_text:
        content["model"]["merges"] = [" ".join(pair) for pair in content["model"]["merges"]]
    path.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n")


def ids_of(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False).ids


def write():
    (HERE / "corpus.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in cases()))
    for name, make, merges_as_text in (("gpt2", gpt2, True), ("llama3", llama3, False)):
        saved(make(), HERE / f"{name}.json", merges_as_text)
        tokenizer = Tokenizer.from_file(str(HERE / f"{name}.json"))
        lines = (" ".join(map(str, ids_of(tokenizer, text))) for text in cases())
        (HERE / f"{name}.ids").write_text("".join(line + "\n" for line in lines))


def fresh_texts(seed):
    pick = random.Random(seed)
    parts = SENTENCES + EMOJI + EDGES + [chr(space) * 2 for space in SPACES] + spread_over_scripts(seed, 1)
    return ["".join(pick.choice(parts)[:pick.randrange(1, 60)] for _ in range(pick.randrange(1, 30)))
            for _ in range(2000)] + spread_over_scripts(seed, 1)


def ids_by_program(program, folder, name):
    subprocess.run([program, "data", "tokenize", folder / "texts.jsonl", folder / name, "--tokenizer",
                    HERE / f"{name}.json", "--format", "jsonl", "--no-end"], check=True)
    index = (folder / f"{name}.idx").read_bytes()
    count = struct.unpack_from("<Q", index, 18)[0]
    lengths = struct.unpack_from(f"<{count}i", index, 34)
    ids = memoryview((folder / f"{name}.bin").read_bytes()).cast("H")
    documents, at = [], 0
    for length in lengths:
        documents.append(list(ids[at:at + length]))
        at += length
    return documents


def check(program):
    seed = random.SystemRandom().randrange(1 << 32)
    texts = [text for text in fresh_texts(seed) if text]
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        (folder / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        for name in ("gpt2", "llama3"):
            tokenizer = Tokenizer.from_file(str(HERE / f"{name}.json"))
            for text, ids in zip(texts, ids_by_program(program, folder, name), strict=True):
                if ids != ids_of(tokenizer, text):
                    sys.exit(f"{name}, seed {seed}: {text!r}: {ids} but the package gives {ids_of(tokenizer, text)}")
    print(f"tokenizers: {len(texts)} texts of seed {seed}, the same ids as the package")


if __name__ == "__main__":
    write() if sys.argv[1:] == ["write"] else check(sys.argv[2])
