"""Signatures, checked against the Standard Webhooks specification's own example."""

import pytest

from muster.notifier.signing import SecretError, parse_secrets, signature

KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVoxMjM0NTY="


def test_a_signature_is_what_the_specification_computes() -> None:
    signed = signature(
        parse_secrets(KEY),
        message_id="msg_p5jXN8AQM9LWM0D4loKWxJek",
        timestamp_s=1614265330,
        body=b'{"test": 2432232314}',
    )
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_while_keys_change_a_message_carries_a_signature_of_each() -> None:
    both = signature(parse_secrets(f"{KEY}\n\n{OTHER}\n"), message_id="m", timestamp_s=1, body=b"{}")
    single = [signature(parse_secrets(key), message_id="m", timestamp_s=1, body=b"{}") for key in (KEY, OTHER)]
    assert both == " ".join(single)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "0 lines"),
        ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "line 1 does not begin with `whsec_`"),
        ("whsec_not base 64!", "line 1 is not base 64"),
        ("whsec_c2hvcnQ=", "line 1 holds 5 bytes"),
        ("\n".join([KEY] * 5), "5 lines"),
    ],
)
def test_a_key_that_cannot_be_is_told_without_quoting_it(text: str, complaint: str) -> None:
    with pytest.raises(SecretError, match=complaint) as error:
        parse_secrets(text)
    assert "MfKQ9r8G" not in str(error.value)
    assert "c2hvcnQ" not in str(error.value)
