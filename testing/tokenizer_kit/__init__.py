"""The contract kit: checks whether a user's own tokenizer keeps its contract.

    python -m backedge.tokenization.kit my_package:MyTokenizer --model PATH

In pytest:

    from backedge.tokenization.kit import contract_tests

    test_my_tokenizer = contract_tests(lambda: MyTokenizer("path/to/model"))
"""

from .runner import CHECKS, STREAMING_CHECKS, Outcome, contract_tests, passed, run

__all__ = ["CHECKS", "STREAMING_CHECKS", "Outcome", "contract_tests", "passed", "run"]
