"""How the parts of a checkpoint, which come in any order, become what health believes; and health's own part."""

from collections.abc import Iterator

from muster.core import Draft, Fact
from muster.health.core import strays
from muster.health.core.brake import KIND, SUBJECT, Brake
from muster.health.core.fold_others import PREFLIGHT
from muster.health.core.state import DEVICE, NODE, State
from muster.health.core.table import Fold
from muster.health.core.units import Unit
from muster.schemas.facts.health import BrakeState, OwnerToldState, UnitState
from muster.schemas.facts.job import JobState
from muster.schemas.facts.node import GrantState, NodeState
from muster.schemas.registry import STATE_NAME


def _state_recorded(state: State, fact: Fact) -> None:
    match fact.payload:
        case UnitState() as stored:
            _load_unit(state, fact.kind, fact.subject_id, stored)
        case NodeState():
            state.nodes.apply(fact)
            state.fresh.append((fact.subject_id, fact.time))
        case GrantState() as grant:
            strays.load(state, fact.kind, fact.subject_id, grant)
        case JobState() as job:
            _load_job(state, job, fact)
        case OwnerToldState() as told:
            state.owners.load_told(fact.subject_id, told)
        case BrakeState() as brake:
            state.brake = Brake.restored(brake, config=state.config.brake)
        case _:
            return  # another service's view of its own subjects


def _load_unit(state: State, kind: str, name: str, stored: UnitState) -> None:
    unit = state.put(Unit.restored(stored, kind=kind, name=name))
    state.incidents += len(unit.incidents)
    for request in (unit.request_id, unit.withdrawn_id, *unit.asked_by, *unit.maintained_by):
        if request:
            state.requests[request] = unit.key
            state.strays.pop((kind, name, request), None)
    if unit.work_id:
        state.work[unit.work_id] = unit.key
        state.look_at(unit.until, unit)
    if not unit.is_healthy:
        state.ill[unit.key] = None
    state.dirty[unit.key] = None
    if kind == NODE:
        state.judged[name] = None


def _load_job(state: State, job: JobState, fact: Fact) -> None:
    if job.phase.is_terminal:
        return
    state.holds.apply(fact)
    state.owners.describe(job.job.id, job.job.spec.team)
    if job.preflight_failures and state.owners.told_at(job.job.id, PREFLIGHT) is None:
        state.owners.tell(job.job.id, PREFLIGHT, fact.time)


def state_drafts(state: State) -> Iterator[Draft]:
    """Health's part of a checkpoint. Nodes come with the agent's part, jobs with the scheduler's."""
    for unit in state.units.values():
        if not unit.is_empty:
            yield Draft(unit.kind, unit.name, STATE_NAME, unit.as_body(UnitState))
    for job, told in state.owners.stored():
        yield Draft("job", job, STATE_NAME, told)
    brake = state.brake
    if brake.tripped is not None or brake.nodes or brake.reset_wish is not None:
        yield Draft(KIND, SUBJECT, STATE_NAME, brake.as_body(BrakeState))


HANDLERS: dict[tuple[str, str], Fold] = {(kind, STATE_NAME): _state_recorded for kind in (NODE, DEVICE, "job", KIND)}
