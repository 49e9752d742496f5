"""Chat requests: checked, typed, and converted to the form that Dynamo routes."""
