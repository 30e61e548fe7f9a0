"""What is said of an event: to programs, and to people in Slack's form."""

import json

import pytest
from pydantic import JsonValue

from kit.log import a_fact
from muster.core.fact import Fact
from muster.core.instant import NS_PER_S
from muster.notifier.catalogue import EVENTS, event_of, patterns
from muster.notifier.events import EventSource, rfc3339, span, trace_id
from muster.notifier.message import HEADER_MAX, cut, escaped, make_message, make_trial
from muster.notifier.story import JobStory
from muster.schemas.base import Payload
from muster.schemas.facts.health import BrakeTripped, HealthMoved
from muster.schemas.facts.job import JobFinished, JobRunning
from muster.schemas.facts.operations import JobFault
from muster.schemas.facts.scale import Alternative, ScaleChosen, ScalePart
from muster.schemas.facts.upgrade import CampaignAccepted, CampaignEnded, CampaignSpec, CampaignStopped
from muster.schemas.subjects import FED_LOG, cluster_log
from muster.schemas.webhooks import WebhookMessage

LOG = cluster_log("atlas")
TRACE = f"00-{'ab' * 16}-{'1' * 16}-01"


def fact(kind: str, name: str, payload: Payload, *, writer: str = "scheduler", at_s: int = 100) -> Fact:
    return a_fact(writer, kind, "J", name, payload, seq=7, time=at_s * NS_PER_S, trace=TRACE, fact_id="f1")


def story(**fields: object) -> JobStory:
    values = {
        "id": "J", "name": "train", "team": "physics", "queue": "physics", "gpu_milli": 16_000,
        "submitted_at": 10 * NS_PER_S, "placed_attempt": 1, "nodes": ("n1", "n2", "n3", "n4", "n5"), "run_attempt": 1,
        "started_at": 40 * NS_PER_S,
    }  # fmt: skip
    return JobStory(**{**values, **fields})  # type: ignore[arg-type]


def job_ended(finished: JobFinished, known: JobStory | None = None, *, name: str = "failed") -> EventSource:
    jobs = {} if known is None else {"J": known}
    return EventSource(fact("job", name, finished), jobs, dashboard_url="https://muster.example/")


def json_of(event: str, source: EventSource) -> dict[str, JsonValue]:
    found = json.loads(make_message(EVENTS[event], source, form="json").body)
    WebhookMessage.model_validate(found)
    assert isinstance(found, dict)
    return found


def test_an_ended_job_says_how_long_it_waited_and_ran() -> None:
    source = json_of("job-ended", job_ended(JobFinished(attempt=1, exit_code=1, ran_s=50, reason="bad"), story()))
    assert (source["id"], source["type"], source["timestamp"]) == ("f1", "job-ended", "1970-01-01T00:01:40.000Z")
    data = source["data"]
    assert isinstance(data, dict)
    assert (data["total_s"], data["ran_s"], data["waited_s"]) == (90.0, 50.0, 40.0)
    assert (data["started_at"], data["url"]) == ("1970-01-01T00:00:40.000Z", "https://muster.example/jobs/J")
    assert data["trace_id"] == "ab" * 16


def test_a_job_that_ended_while_it_waited_for_another_run_names_no_nodes_of_the_last_one() -> None:
    data = json_of("job-ended", job_ended(JobFinished(attempt=2, ran_s=50), story(), name="cancelled"))["data"]
    assert isinstance(data, dict)
    assert (data["nodes"], data["started_at"]) == ([], "")


def test_an_unknown_job_is_told_with_what_its_end_says() -> None:
    data = json_of("job-ended", job_ended(JobFinished(attempt=1, exit_code=3, ran_s=5)))["data"]
    assert isinstance(data, dict)
    assert (data["job_id"], data["name"], data["exit_code"], data["total_s"]) == ("J", "", 3, 5.0)


def scale(**fields: object) -> Fact:
    chosen = ScaleChosen.model_validate({"case": 1, "jobs": ("J", "K"), "reason": "8 GPUs short", **fields})
    return fact("scale", "gpu-attach-chosen", chosen, writer="scaler")


def test_a_choice_for_one_team_leaves_out_the_jobs_of_others() -> None:
    jobs = {"J": story(), "K": story(id="K", team="biology")}
    for teams, ids in ((frozenset({"biology"}), ["K"]), (frozenset[str](), ["J", "K"])):
        data = json_of("scale-chosen", EventSource(scale(), jobs, teams))["data"]
        assert isinstance(data, dict)
        assert isinstance(data["jobs"], list)
        assert [job["job_id"] for job in data["jobs"] if isinstance(job, dict)] == ids
        assert data["jobs_total"] == len(ids)


def slack_of(event: str, source: EventSource) -> tuple[str, str]:
    """Title, and everything that it shows."""
    document = json.loads(make_message(EVENTS[event], source, form="slack").body)
    return document["blocks"][0]["text"]["text"], json.dumps(document, ensure_ascii=False)


def test_people_read_what_happened_first_and_get_a_link() -> None:
    title, shown = slack_of(
        "job-ended", job_ended(JobFinished(attempt=1, exit_code=137, ran_s=3725, reason="out of memory"), story())
    )
    assert title == ":x: train failed"
    assert "<https://muster.example/jobs/J|Open in Muster>" in shown
    for said in ("out of memory", "*Ran*\\n1 h 2 min", "*GPUs*\\n16", "*Exit code*\\n137", "n1, n2, n3 and 2 more"):
        assert said in shown


def test_people_read_what_is_added_where_and_for_whom() -> None:
    parts = (ScalePart(node="flex-1", count=2),)
    weighed = (Alternative(what="a node", fits=True), Alternative(what="it", fits=True, chosen=True))
    choice = scale(device_model="H100", count=2, parts=parts, ready_s=90.0, alternatives=weighed)
    source = EventSource(choice, {"J": story()})
    title, shown = slack_of("scale-chosen", source)
    assert title == ":information_source: Attach 2 H100 GPUs to flex-1"
    for said in ("8 GPUs short", "*For*\\ntrain, K", "about 1 min 30 s", "*Also weighed*\\n1"):
        assert said in shown


def test_nobody_can_mention_a_channel_by_what_a_job_says() -> None:
    _, shown = slack_of("job-ended", job_ended(JobFinished(attempt=1, reason="<!channel> & <@U1>"), story()))
    assert "&lt;!channel&gt; &amp; &lt;@U1&gt;" in shown
    assert "<!channel>" not in shown


def test_slack_is_sent_no_text_beyond_its_limits() -> None:
    long = "x" * 5_000
    _, shown = slack_of("job-ended", job_ended(JobFinished(attempt=1, reason="r" * 1024), story(name=long)))
    document = json.loads(shown)
    assert len(document["blocks"][0]["text"]["text"]) == HEADER_MAX
    assert cut(escaped("a&b"), 3) == "a&…"


@pytest.mark.parametrize("form", ["json", "slack"])
def test_a_trial_says_which_webhook_it_is_of(form: str) -> None:
    assert b"webhook pager" in make_trial("pager", message_id="m", time_ns=NS_PER_S, form=form).body


def test_each_event_asks_for_its_facts_alone() -> None:
    assert patterns(("job-ended",), LOG) == tuple(
        f"muster.atlas.scheduler.job.*.{name}" for name in ("cancelled", "failed", "succeeded", "timed-out")
    )
    assert patterns(("job-ended",), FED_LOG) == ("muster.fed.federation.*.job.*.cancelled",)
    assert patterns(("scale-chosen",), FED_LOG) == ()
    facts = [row for event in EVENTS.values() for row in event.facts if row.stream is LOG.role]
    assert len(patterns(tuple(EVENTS), LOG)) == len(facts)


def test_a_fact_belongs_to_the_event_whose_row_names_it() -> None:
    ended = fact("job", "succeeded", JobFinished())
    assert event_of(("scale-chosen", "job-ended"), ended) is EVENTS["job-ended"]
    assert event_of(("scale-chosen",), ended) is None
    assert event_of(("job-ended",), fact("job", "running", JobRunning(attempt=1))) is None


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.25, "250 ms"), (42, "42 s"), (60, "1 min"), (200, "3 min 20 s"), (3600 * 5 + 420, "5 h 7 min"),
        (183_600, "2 d 3 h"),
    ],
)  # fmt: skip
def test_durations_are_said_as_people_say_them(seconds: float, said: str) -> None:
    assert span(seconds) == said


def test_moments_and_traces_are_texts() -> None:
    assert rfc3339(1_700_000_000_123_456_789) == "2023-11-14T22:13:20.123Z"
    assert (rfc3339(0), trace_id(""), trace_id(TRACE)) == ("", "", "ab" * 16)


def health_fact(kind: str, name: str, payload: Payload) -> EventSource:
    return EventSource(fact(kind, name, payload, writer="health"), dashboard_url="https://muster.example")


def test_hardware_that_is_out_of_use_says_why_and_what_is_to_be_done() -> None:
    moved = HealthMoved(node="n1", because="xid-79: off the bus", codes=("xid-79",), attempt=1)
    data = json_of("hardware-changed", health_fact("node", "quarantined", moved))["data"]
    assert isinstance(data, dict)
    assert (data["what"], data["node"], data["codes"]) == ("quarantined", "n1", ["xid-79"])
    waits = moved.model_copy(update={"needs_person": True})
    title, _ = slack_of("hardware-changed", health_fact("node", "quarantined", waits))
    assert title == ":x: n1 needs a person"


def test_a_brake_that_trips_is_told_to_people() -> None:
    tripped = BrakeTripped(nodes=9, most=3, fleet=20, window_s=600.0, because="9 of 20 nodes")
    title, shown = slack_of("hardware-changed", health_fact("health", "brake-tripped", tripped))
    assert title == ":x: Health stopped: too much looks broken"
    assert "9 of 20 nodes" in shown


def test_an_owner_is_told_which_program_faulted_where() -> None:
    fault = JobFault(code="xid-31", node="n1", device="GPU-1", team="physics", detail="touched memory")
    source = EventSource(fact("job", "fault-told", fault, writer="health"), {"J": story()})
    data = json_of("job-fault", source)["data"]
    assert isinstance(data, dict)
    assert (data["job_id"], data["name"], data["team"], data["code"]) == ("J", "train", "physics", "xid-31")


def campaign_fact(name: str, payload: Payload) -> EventSource:
    return EventSource(fact("campaign", name, payload, writer="upgrader"), dashboard_url="https://muster.example")


def test_a_campaign_that_stopped_names_the_nodes_that_failed() -> None:
    stopped = campaign_fact("stopped", CampaignStopped(reason="1 node failed, of 1 that may", failed=("n7",)))
    data = json_of("campaign-changed", stopped)["data"]
    assert isinstance(data, dict)
    assert (data["what"], data["campaign"], data["failed_nodes"]) == ("stopped", "J", ["n7"])
    title, shown = slack_of("campaign-changed", stopped)
    assert title == ":x: Campaign J stopped: look at it"
    assert "n7" in shown


def test_a_campaign_says_how_it_began_and_how_it_ended() -> None:
    spec = CampaignSpec.model_validate({"name": "j", "component": "driver", "version": "580.105"})
    _, shown = slack_of("campaign-changed", campaign_fact("accepted", CampaignAccepted(spec=spec, nodes=200)))
    assert "driver 580.105" in shown
    assert "200" in shown
    title, shown = slack_of("campaign-changed", campaign_fact("ended", CampaignEnded(done=200, gpu_hours_lost=667.5)))
    assert title == ":white_check_mark: Campaign J is over"
    assert "667.5 GPU-hours" in shown
