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


STAYS = "without its old image the row of the earlier value would stay."
REQUIRED = 'Leave `before` out of the source ("required": such an update is a dead letter), and let the database log whole rows'


def test_an_id_that_an_update_may_change_needs_the_old_image(deploy, refusal):
    text = SAMPLE.replace('id = ["id"]', 'id = ["id", "project"]')
    assert refusal(text) == (
        "deploy.toml:16: pipelines.contract_rank.id: source 'contracts' has before = \"optional\", and column 'project' is"
        f" not in its `key` (id), so an update may change it: {STAYS} {REQUIRED}; or identify rows by columns of that"
        " `key`"
    )
    deploy(text.replace('key = ["id"]', 'key = ["id", "project"]'))
    deploy(text.replace('before = "optional"', ""))


def test_without_a_key_of_the_source_an_update_may_change_the_id(deploy, refusal):
    text = SAMPLE.replace('key = ["id"]\n', "")
    assert refusal(text) == (
        "deploy.toml:15: pipelines.contract_rank.id: source 'contracts' has before = \"optional\" and no `key`, so it is not"
        f" known whether an update may change column 'id': {STAYS} Name the primary key of its table as the source's `key`,"
        " with this column in it"
    )
    deploy(text.replace("debezium-json", "maxwell-json"))  # it always has old values


def test_an_id_may_have_metadata_which_both_images_share(deploy):
    text = SAMPLE.replace("at timestamp", "at timestamp, base string").replace('id = ["id"]', 'id = ["base", "id"]')
    deploy(text.replace('before = "optional"', 'before = "optional"\nmetadata = { base = "database" }'))


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
