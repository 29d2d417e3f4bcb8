"""Deployments as texts, read or refused."""

import pytest

from headwater.app.config import load
from headwater.domain.errors import ConfigError


@pytest.fixture
def deploy(tmp_path):
    """Loads a text as a deployment file."""

    def loaded(text, **environ):
        file = tmp_path / "deploy.toml"
        file.write_text(text, encoding="utf-8")
        return load(file, environ)

    return loaded


@pytest.fixture
def refusal(deploy, tmp_path):
    """What the message says of a text that is refused, without the folder."""

    def said(text, **environ):
        with pytest.raises(ConfigError) as caught:
            deploy(text, **environ)
        return str(caught.value).replace(f"{tmp_path}/", "")

    return said
