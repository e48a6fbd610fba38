"""Amazon Bedrock, by its OpenAI-compatible endpoint and an API key of Bedrock. Requests are not signed."""

from __future__ import annotations

from agentos.providers import openai
from agentos.providers.compatible import compatible
from agentos.providers.evidence import Evidence, NotServed, Overloaded, QuotaSpent, RateLimited, Rejected
from agentos.providers.replies import ErrorReply

_OVERLOADED = frozenset({"InternalServerException", "ModelNotReadyException", "ServiceUnavailableException"})
_NOT_SERVED = frozenset({"AccessDeniedException", "FTUFormNotFilled", "ResourceNotFoundException"})
_REJECTED = frozenset({"ExpiredTokenException", "UnrecognizedClientException"})


def read_error(reply: ErrorReply) -> Evidence:
    """By AWS's own name of the error where it has one, else as OpenAI's."""
    name = reply.headers.get("x-amzn-errortype", "").partition(":")[0]
    wait = reply.retry_after_seconds
    if name == "ThrottlingException":
        return RateLimited(retry_after_seconds=wait)
    if name == "ServiceQuotaExceededException":
        return QuotaSpent(reason=name)
    if name in _OVERLOADED:
        return Overloaded(retry_after_seconds=wait)
    if name in _REJECTED:
        return Rejected(reason=name)
    if name in _NOT_SERVED:
        # Access is granted account by account and model by model: another key may have it.
        return NotServed(status=reply.status, reason=name)
    return openai.read_error(reply)


PROVIDER = compatible(
    "bedrock",
    rank=32,
    key_variables=("AWS_BEARER_TOKEN_BEDROCK",),
    needs_base_url=True,
    quota_owner="AWS account and region",
    price_list="aws",
    read_error=read_error,
)
