"""A tokenizer from the vocabulary in a GGUF file: byte-level BPE and SentencePiece BPE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers

from rooftune.engine.model.tokenizer import Tokenizer, check_size
from rooftune.errors import WrongInput

_CONTROL, _USER_DEFINED = 3, 4
"""Token types in tokenizer.ggml.token_type that are matched whole in text."""

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_LLAMA3_SPLIT = (
    _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2_SPLIT = _LLAMA3_SPLIT.replace(r"\p{N}{1,3}", r"\p{N}")


def tokenizer_from_gguf(metadata: Mapping[str, Any], vocabulary: int, where: str) -> Tokenizer:
    """From GGUF metadata. Raises WrongInput that names a tokenizer or pre-tokenizer that is not supported."""
    model = metadata.get("tokenizer.ggml.model")
    tokens = metadata.get("tokenizer.ggml.tokens")
    if not tokens:
        raise WrongInput(f"{where}: the vocabulary is missing; convert the model again")
    ids = {token: index for index, token in enumerate(tokens)}
    if len(ids) != len(tokens):
        raise WrongInput(f"{where}: the vocabulary holds a token twice; the file is damaged")
    try:
        if model == "gpt2":
            inner, kind = _byte_level(metadata, ids, where)
        elif model == "llama":
            inner, kind = _sentencepiece(metadata, ids, where)
        else:
            raise WrongInput(
                f"{where}: tokenizer '{model}' is not supported in a GGUF (gpt2 and llama are);"
                " use the model's Hugging Face folder"
            )
    except WrongInput:
        raise
    except Exception as error:  # the library raises bare Exception
        raise WrongInput(f"{where}: the vocabulary is not consistent ({_first_line(error)})") from error
    kinds = metadata.get("tokenizer.ggml.token_type", [])
    for wanted, special in ((_CONTROL, True), (_USER_DEFINED, False)):
        whole = [token for token, kind_ in zip(tokens, kinds, strict=False) if kind_ == wanted]
        inner.add_tokens([AddedToken(token, normalized=False, special=special) for token in whole])
    check_size(inner, vocabulary, where)
    bos = metadata.get("tokenizer.ggml.bos_token_id")
    # SentencePiece models take the begin token unless their file says otherwise.
    adds_bos = bool(metadata.get("tokenizer.ggml.add_bos_token", model == "llama"))
    return Tokenizer(inner, None if bos is None else int(bos), adds_bos, kind)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _byte_level(
    metadata: Mapping[str, Any], ids: dict[str, int], where: str
) -> tuple[tokenizers.Tokenizer, str]:
    merges = metadata.get("tokenizer.ggml.merges")
    if merges is None:
        raise WrongInput(f"{where}: the vocabulary has no merges; convert the model again")
    pre = str(metadata.get("tokenizer.ggml.pre", "default"))
    normalizer, pre_tokenizer, ignore_merges = _pre_tokenizer(pre, where)
    pairs = [tuple(merge.split(" ", 1)) for merge in merges]
    if short := next((merge for merge, pair in zip(merges, pairs, strict=True) if len(pair) != 2), None):
        raise WrongInput(f"{where}: the vocabulary is not consistent (merge {short[:40]!r} names no pair)")
    inner = tokenizers.Tokenizer(models.BPE(vocab=ids, merges=pairs, ignore_merges=ignore_merges))
    if normalizer is not None:
        inner.normalizer = normalizer
    inner.pre_tokenizer = pre_tokenizer
    inner.decoder = decoders.ByteLevel()
    return inner, f"byte-level BPE from GGUF, split '{pre}'"


def _sentencepiece(
    metadata: Mapping[str, Any], ids: dict[str, int], where: str
) -> tuple[tokenizers.Tokenizer, str]:
    scores = metadata.get("tokenizer.ggml.scores")
    if not scores or len(scores) != len(ids):
        raise WrongInput(f"{where}: the vocabulary has no score for every token; convert the model again")
    unknown = metadata.get("tokenizer.ggml.unknown_token_id")
    inner = tokenizers.Tokenizer(
        models.BPE(
            vocab=ids,
            merges=merges_from_scores(ids, scores),
            unk_token=None if unknown is None else list(ids)[int(unknown)],
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    marks: list[Any] = [normalizers.Replace(" ", "\u2581")]
    undo: list[Any] = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    if metadata.get("tokenizer.ggml.add_space_prefix", True):
        marks.insert(0, normalizers.Prepend("\u2581"))
        undo.append(decoders.Strip(" ", 1, 0))
    inner.normalizer = normalizers.Sequence(marks)
    inner.decoder = decoders.Sequence(undo)
    return inner, "SentencePiece BPE from GGUF"


def merges_from_scores(ids: Mapping[str, int], scores: Sequence[float]) -> list[tuple[str, str]]:
    """The merges that a scored vocabulary implies, best first.

    SentencePiece joins the neighbours whose union has the best score, the leftmost of equals; so every way to
    cut a token into two tokens is a merge, ranked by the score of the whole.
    """
    ranked: list[tuple[float, int, int, str, str]] = []
    for token, index in ids.items():
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in ids and right in ids:
                ranked.append((-scores[index], index, cut, left, right))
    ranked.sort()
    return [(left, right) for *_, left, right in ranked]


def _pre_tokenizer(pre: str, where: str) -> tuple[Any, Any, bool]:
    """Normalizer, pre-tokenizer and whether whole words bypass the merges, by GGUF name."""

    def split(pattern: str) -> Any:
        return pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )

    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    if pre == "gpt-2":
        return None, byte_level, False
    if pre == "smollm":
        return (
            None,
            pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level]),
            False,
        )
    if pre == "llama-bpe":
        return None, split(_LLAMA3_SPLIT), True
    if pre == "qwen2":
        return normalizers.NFC(), split(_QWEN2_SPLIT), False
    raise WrongInput(
        f"{where}: pre-tokenizer '{pre}' is not supported (gpt-2, smollm, llama-bpe, qwen2 are);"
        " use the model's Hugging Face folder"
    )
