from __future__ import annotations

import pytest

from rooftune.engine.model.chat import ChatTemplate
from rooftune.errors import WrongInput
from tests.model.tiny import TEMPLATE

USER = [{"role": "user", "content": "hi"}]


def render(source: str, **values: object) -> str:
    return ChatTemplate(source, {"bos_token": "<s>"}).render(USER, **values)  # type: ignore[arg-type]


def test_the_tiny_template() -> None:
    template = ChatTemplate(TEMPLATE, {})
    assert template.render(USER) == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert template.render(USER, add_generation_prompt=False) == "<|im_start|>user\nhi<|im_end|>\n"


def test_same_text_as_transformers(tmp_path: object) -> None:
    """Whitespace rules, loop controls, special tokens and filters as transformers sets them up."""
    from transformers.utils.chat_template_utils import render_jinja_template

    source = (
        "{{ bos_token }}\n{%- for m in messages %}\n  {% if loop.index > 5 %}{% break %}{% endif %}\n"
        "{{ m.role }}: {{ m['content'] | trim }} {{ m | tojson }}\n{% generation %}x{% endgeneration %}"
        "{% endfor %}{% if add_generation_prompt %}go{% endif %}"
    )
    messages = [{"role": "user", "content": " <b> é "}, {"role": "assistant", "content": "ok"}] * 4
    rendered, _ = render_jinja_template(
        [messages], chat_template=source, add_generation_prompt=True, bos_token="<s>"
    )
    assert ChatTemplate(source, {"bos_token": "<s>"}).render(messages) == rendered[0]


def test_raise_exception_becomes_wrong_input() -> None:
    with pytest.raises(WrongInput, match="unknown role robot"):
        ChatTemplate(TEMPLATE, {}).render([{"role": "robot", "content": ""}])


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.__class__.__mro__ }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update({'role': 'x'}) }}",
        "{{ 'x' * 100000000 }}",
        "{{ 10 ** 100000000 }}",
        "{% for i in range(100000000) %}x{% endfor %}",
        "{% include '/etc/passwd' %}",
        "{{ undefined_thing.attribute }}",
        "{{ 1 / 0 }}",
        "{{ messages[0].content + 1 }}",
    ],
)
def test_what_a_template_must_not_do(source: str) -> None:
    with pytest.raises(WrongInput) as caught:
        render(source)
    assert "\n" not in str(caught.value) and str(caught.value).startswith("chat template")


def test_a_broken_template_names_the_line() -> None:
    with pytest.raises(WrongInput, match="line 2"):
        render("a\n{% if %}")


def test_a_huge_template_is_refused() -> None:
    with pytest.raises(WrongInput, match="limit"):
        render("x" * 300_000)


def test_a_template_that_runs_for_ever_is_stopped() -> None:
    nested = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    with pytest.raises(WrongInput, match="seconds"):
        render(nested)


def test_messages_are_not_changed() -> None:
    messages = [{"role": "user", "content": "hi"}]
    ChatTemplate("{% set m = messages[0] %}{{ m.content }}", {}).render(messages)
    assert messages == [{"role": "user", "content": "hi"}]
