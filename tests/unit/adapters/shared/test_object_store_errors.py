"""What is shown of an object store's answer."""

import pytest

from headwater.adapters.shared.object_store_errors import object_store_reason

FRONT = "Error performing GET http://host/lake/a in 1ms - Server returned non-2xx status code: 403 Forbidden"


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ("", ":"),
        ("Access\ndenied", ": Access denied"),
        ("<Error><Code>AccessDenied</Code></Error>", ": AccessDenied"),
        (
            '<?xml version="1.0"?>\n<Error>\n<Code>ExpiredToken</Code>\n<Message>It has\nexpired.</Message>'
            "<Token-0>hidden</Token-0></Error> (path: s3://lake/a)",
            ": ExpiredToken: It has expired.",
        ),
        (
            "\ufeff<?xml version='1.0'?><Error><Code>AuthenticationFailed</Code><Message>The &quot;signature&quot;\n"
            "RequestId:1</Message><AuthenticationErrorDetail>hidden</AuthenticationErrorDetail></Error>",
            ': AuthenticationFailed: The "signature" RequestId:1',
        ),
        ("<html><body>hidden</body></html>", ""),
    ],
)
def test_of_markup_the_code_and_the_message_are_shown(body: str, shown: str) -> None:
    error = Exception(f"{FRONT}: {body}\n\nDebug source:\nGeneric {{\n    hidden")
    assert object_store_reason(error) == f"{FRONT}{shown}"


def test_an_error_without_an_answer_is_told_in_one_line() -> None:
    error = Exception("HTTP error: error sending request\n\nCaused by:\n    0: Connection refused (os error 111)")
    expected = "HTTP error: error sending request Caused by: 0: Connection refused (os error 111)"
    assert object_store_reason(error) == expected
