"""Panels of the Grafana dashboards, one module each. Every query is tested on a running stack (tests/integration)."""

from muster_tools.grafana.catalogue.apiserver import API_SERVER
from muster_tools.grafana.catalogue.campaigns import CAMPAIGNS
from muster_tools.grafana.catalogue.cluster import CLUSTER
from muster_tools.grafana.catalogue.federation import FEDERATION
from muster_tools.grafana.catalogue.fleet import FLEET
from muster_tools.grafana.catalogue.health import HEALTH
from muster_tools.grafana.catalogue.queues import QUEUES
from muster_tools.grafana.catalogue.scaling import SCALING
from muster_tools.grafana.catalogue.services import MUSTER
from muster_tools.grafana.catalogue.teams import TEAMS
from muster_tools.grafana.catalogue.use import USE

BOARDS = (FLEET, HEALTH, USE, QUEUES, TEAMS, CAMPAIGNS, FEDERATION, SCALING, CLUSTER, API_SERVER, MUSTER)
