"""To which grammar engines hold an answer: its request, the checks of it, and the policy."""
