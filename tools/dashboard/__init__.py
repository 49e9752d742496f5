"""Queries the dashboard of deploy/grafana/ from a real Prometheus, and draws it.

It is not Grafana: it sends the same queries as Grafana, and draws the results.
"""
