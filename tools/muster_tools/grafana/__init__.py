"""Grafana's dashboards, written as the JSON files of compose/grafana/dashboards."""
