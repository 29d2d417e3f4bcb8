"""Configuration of rankings: what is refused, and what the message says about it."""

import pytest

from headwater.domain.errors import ConfigError

SAMPLE = """\
[backend]
name = "memory"

[sources.contracts]
kind = "files"
path = "in"
format = "debezium-json"
schema = "id bigint, project string, at timestamp"
key = ["id"]
before = "optional"

[pipelines.contract_rank]
service = "ranking"
source = "contracts"
group = ["project"]
id = ["id"]
order_by = "at"
"""


def test_rows_that_are_found_by_their_old_image_need_it(deploy):
    with pytest.raises(
        ConfigError,
        match=r'18: pipelines.contract_rank.repeats: source .contracts. has before = "optional", and repeats = "same-',
    ):
        deploy(f'{SAMPLE}repeats = "same-segment"\n')


@pytest.mark.parametrize(
    "text",
    [
        SAMPLE,
        f'{SAMPLE}repeats = "anywhere"\n',
        f'{SAMPLE}repeats = "same-segment"\n'.replace('before = "optional"', 'before = "required"'),
    ],
)
def test_rows_that_are_found_by_their_id_or_have_an_old_image_are_welcome(deploy, text):
    deploy(text)


@pytest.mark.parametrize("order", ['order_by = "-at"', 'order_by = "at"\ntie_break = ["-at"]'])
def test_a_column_that_is_also_the_descending_order_of_another_one_is_refused(deploy, order):
    text = SAMPLE.replace("at timestamp", "at timestamp, `-at` timestamp").replace('order_by = "at"', order)
    with pytest.raises(ConfigError, match="'-at' is a column, and 'at' in descending order: leave one of both columns"):
        deploy(text)


def test_segments_of_a_number_have_no_default_length(deploy, refusal):
    text = SAMPLE.replace("at timestamp", "at bigint")
    assert refusal(text) == (
        "deploy.toml:12: pipelines.contract_rank.segment: is missing; column 'at' is a bigint, so write the length of a"
        " segment as a number in its unit, such as 1000"
    )
    deploy(f"{text}segment = 1000\n")
