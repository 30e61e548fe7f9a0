"""What stands on each dashboard, a module each. Every query is checked against a running stack (tests/integration)."""

from catalogue.apiserver import API_SERVER
from catalogue.campaigns import CAMPAIGNS
from catalogue.cluster import CLUSTER
from catalogue.federation import FEDERATION
from catalogue.fleet import FLEET
from catalogue.health import HEALTH
from catalogue.queues import QUEUES
from catalogue.scaling import SCALING
from catalogue.services import MUSTER
from catalogue.teams import TEAMS
from catalogue.use import USE

BOARDS = (FLEET, HEALTH, USE, QUEUES, TEAMS, CAMPAIGNS, FEDERATION, SCALING, CLUSTER, API_SERVER, MUSTER)
