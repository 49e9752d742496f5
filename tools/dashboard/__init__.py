"""The dashboard of deploy/grafana/, asked of a real Prometheus and drawn as a picture.

It is not Grafana: it sends the dashboard's queries as Grafana would, and draws what comes back.
"""
