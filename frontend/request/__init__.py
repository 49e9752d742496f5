"""A chat request: checked, typed, and in the form in which Dynamo routes it."""
